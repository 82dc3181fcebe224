package operations_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/cluster/operations"
	"ndrbridge/internal/tickets"
	"ndrbridge/poller"
	"ndrbridge/transform"
)

// errDown is the error of a shard without an owner.
var errDown = fmt.Errorf("no member owns it: %w", admin.ErrUnavailable)

// shard is a Shard in memory, safe for concurrent use. Its fields replace what a method
// returns.
type shard struct {
	number, of int
	status     admin.Status
	history    admin.History
	backup     string
	replayed   uint64
	remembers  []string // appliances
	has        []string
	tail       func(ctx context.Context, from admin.From, yield func(transform.Event) error) error
	verified   []poller.Verification

	mu        sync.Mutex
	err       error // of every method
	dead      map[checkpoint.Owner]map[string]checkpoint.DeadLetter
	commands  []checkpoint.Command
	paused    map[string]bool // by sinks that it knows
	rewound   checkpoint.Source
	asked     int // how often appliances were asked
	forgotten []string
}

var _ operations.Shard = (*shard)(nil)

func newShard(number, of int) *shard {
	return &shard{
		number: number, of: of, dead: make(map[checkpoint.Owner]map[string]checkpoint.DeadLetter),
		paused: map[string]bool{"lake": false},
	}
}

func (s *shard) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// enter locks the shard and returns its error.
func (s *shard) enter() (func(), error) {
	s.mu.Lock()
	return s.mu.Unlock, s.err
}

func (s *shard) knows(o checkpoint.Owner) error {
	if sink, ok := o.Sink(); ok {
		if _, ok := s.paused[sink]; !ok {
			return fmt.Errorf("%w sink %q", admin.ErrUnknown, sink)
		}
	}
	return s.err
}

func (s *shard) Status(context.Context) (admin.Status, error) {
	defer s.mu.Unlock()
	s.mu.Lock()
	return s.status, s.err
}

func (s *shard) History(context.Context) (admin.History, error) {
	leave, err := s.enter()
	defer leave()
	return s.history, err
}

func (s *shard) Tail(ctx context.Context, from admin.From, yield func(transform.Event) error) error {
	leave, err := s.enter()
	leave()
	if err != nil {
		return err
	}
	return s.tail(ctx, from, yield)
}

func (s *shard) Dead(_ context.Context, o checkpoint.Owner, after string, limit int) (page []checkpoint.DeadLetter, err error) {
	leave, _ := s.enter()
	defer leave()
	if err := s.knows(o); err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(s.dead[o])) {
		if (after == "" || key > after) && len(page) < limit {
			page = append(page, s.dead[o][key])
		}
	}
	return page, nil
}

func (s *shard) DeadGroups(_ context.Context, o checkpoint.Owner) (admin.DeadGroups, error) {
	leave, _ := s.enter()
	defer leave()
	if err := s.knows(o); err != nil {
		return admin.DeadGroups{}, err
	}
	var grouping admin.DeadGrouping
	for owner, deadLetters := range s.dead {
		if o != "" && o != owner {
			continue
		}
		for _, d := range deadLetters {
			grouping.AddTotal(1)
			grouping.Add(owner, d)
		}
	}
	return grouping.Groups(), nil
}

func (s *shard) DeadLetter(_ context.Context, o checkpoint.Owner, key string) (checkpoint.DeadLetter, error) {
	leave, _ := s.enter()
	defer leave()
	if err := s.knows(o); err != nil {
		return checkpoint.DeadLetter{}, err
	}
	d, ok := s.dead[o][key]
	if !ok {
		return d, fmt.Errorf("%w dead letter %q", admin.ErrUnknown, key)
	}
	return d, nil
}

func (s *shard) Requeue(ctx context.Context, sink string, keys []string) (int, error) {
	return s.DropDead(ctx, checkpoint.SinkOwner(sink), keys)
}

func (s *shard) DropDead(_ context.Context, o checkpoint.Owner, keys []string) (n int, err error) {
	leave, _ := s.enter()
	defer leave()
	if err := s.knows(o); err != nil {
		return 0, err
	}
	if keys == nil {
		keys = slices.Collect(maps.Keys(s.dead[o]))
	}
	for _, key := range keys {
		if _, ok := s.dead[o][key]; ok {
			delete(s.dead[o], key)
			n++
		}
	}
	return n, nil
}

// addDead adds a dead letter.
func (s *shard) addDead(o checkpoint.Owner, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead[o] == nil {
		s.dead[o] = make(map[string]checkpoint.DeadLetter)
	}
	s.dead[o][key] = checkpoint.DeadLetter{Key: key, Class: "rejected", Reason: "422", Time: time.Unix(1, 0).UTC(), Body: []byte(`{}`)}
}

func (s *shard) Replay(_ context.Context, sink string, _ admin.Replay) (uint64, error) {
	leave, _ := s.enter()
	defer leave()
	if err := s.knows(checkpoint.SinkOwner(sink)); err != nil {
		return 0, err
	}
	return s.replayed, nil
}

func (s *shard) Pause(_ context.Context, sink string) error  { return s.pause(sink, true) }
func (s *shard) Resume(_ context.Context, sink string) error { return s.pause(sink, false) }

func (s *shard) pause(sink string, paused bool) error {
	leave, _ := s.enter()
	defer leave()
	if err := s.knows(checkpoint.SinkOwner(sink)); err != nil {
		return err
	}
	s.paused[sink] = paused
	return nil
}

func (s *shard) Backup(_ context.Context, w io.Writer) error {
	leave, err := s.enter()
	defer leave()
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, s.backup)
	return err
}

func (s *shard) Reload(context.Context) (admin.Reloaded, error) {
	return admin.Reloaded{}, errors.New("a shard was asked to reload")
}

func (s *shard) Rewind(_ context.Context, source checkpoint.Source, _ time.Time) error {
	leave, err := s.enter()
	defer leave()
	s.rewound = source
	return err
}

func (s *shard) Verify(_ context.Context, _ string, _ time.Time, _ poller.VerifyReport) ([]poller.Verification, error) {
	leave, err := s.enter()
	defer leave()
	return s.verified, err
}

func (s *shard) Detection(_ context.Context, appliance string, id int64) (admin.Detection, error) {
	leave, err := s.enter()
	defer leave()
	return admin.Detection{Appliance: appliance, ID: id, Versions: []admin.DetectionVersion{{
		Seq: 7, Event: []byte("{}"), Sinks: []admin.DetectionDelivery{{Sink: "lake", Result: admin.ResultDeadLetter, Key: "7"}, {Sink: "soc", Result: admin.ResultPending}},
	}}}, err
}

func (s *shard) Commands(_ context.Context, f checkpoint.CommandFilter, after uint64, limit int) (page []checkpoint.Command, err error) {
	leave, err := s.enter()
	defer leave()
	for _, c := range s.commands {
		if c.ID > after && len(page) < limit && (f.Appliance == "" || f.Appliance == c.Appliance) && (f.Subject == "" || f.Subject == c.Subject) {
			page = append(page, c)
		}
	}
	return page, err
}

func (s *shard) Command(_ context.Context, id uint64) (checkpoint.Command, error) {
	leave, err := s.enter()
	defer leave()
	if err != nil {
		return checkpoint.Command{}, err
	}
	i := slices.IndexFunc(s.commands, func(c checkpoint.Command) bool { return c.ID == id })
	if i < 0 {
		return checkpoint.Command{}, fmt.Errorf("%w ticket command %d", admin.ErrUnknown, id)
	}
	return s.commands[i], nil
}

func (s *shard) RetryCommand(ctx context.Context, id uint64) error {
	_, err := s.Command(ctx, id)
	return err
}

func (s *shard) DropCommand(ctx context.Context, id uint64) error {
	if _, err := s.Command(ctx, id); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commands = slices.DeleteFunc(s.commands, func(c checkpoint.Command) bool { return c.ID == id })
	return nil
}

func (s *shard) Forget(_ context.Context, sink string) error {
	leave, _ := s.enter()
	defer leave()
	if err := s.knows(checkpoint.SinkOwner(sink)); err != nil {
		return err
	}
	delete(s.paused, sink)
	return nil
}

func (s *shard) Rename(ctx context.Context, sink, to string) error {
	if err := s.Forget(ctx, sink); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused[to] = false
	return nil
}

func (s *shard) ForgetAppliance(_ context.Context, name string) error {
	leave, err := s.enter()
	defer leave()
	s.forgotten = append(s.forgotten, name)
	return err
}

func (s *shard) ForgetIdentity(ctx context.Context, name string) error {
	return s.ForgetAppliance(ctx, "identity of "+name)
}

func (s *shard) Locate(_ context.Context, _ tickets.Command, ask bool) ([]string, error) {
	leave, err := s.enter()
	defer leave()
	switch {
	case err != nil:
		return nil, err
	case ask:
		s.asked++
		return s.has, nil
	}
	return s.remembers, nil
}

func (s *shard) Accept(_ context.Context, commands []checkpoint.Command) (all []checkpoint.Acceptance, err error) {
	leave, err := s.enter()
	defer leave()
	if err != nil {
		return nil, err
	}
	for _, c := range commands {
		if i := slices.IndexFunc(s.commands, func(known checkpoint.Command) bool { return c.Key != "" && known.Key == c.Key }); i >= 0 {
			all = append(all, checkpoint.Acceptance{ID: s.commands[i].ID, Duplicate: true})
			continue
		}
		c.State = checkpoint.CommandPending
		c.ID = uint64(len(s.commands)*s.of + s.number)
		if s.number == 0 {
			c.ID += uint64(s.of) // IDs begin above 0
		}
		s.commands = append(s.commands, c)
		all = append(all, checkpoint.Acceptance{ID: c.ID})
	}
	return all, nil
}

// cluster is the Shards of a test: shards in memory, or behind remotes.
type cluster struct {
	shards  []*shard
	reach   func(n int) operations.Shard // nil: the shards themselves
	members []operations.Member
}

func newCluster(count int) *cluster {
	c := new(cluster)
	for n := range count {
		c.shards = append(c.shards, newShard(n, count))
	}
	return c
}

func (c *cluster) Count() int                   { return len(c.shards) }
func (c *cluster) Members() []operations.Member { return c.members }
func (c *cluster) Of(appliance string) int      { return configs.ShardOf(appliance, len(c.shards)) }

func (c *cluster) Shard(n int) operations.Shard {
	if c.reach != nil {
		return c.reach(n)
	}
	return c.shards[n]
}

// applianceIn returns the name of an appliance in a shard.
func (c *cluster) applianceIn(n int) string {
	for i := 0; ; i++ {
		if name := fmt.Sprintf("a%d", i); c.Of(name) == n {
			return name
		}
	}
}

// appliances returns the names of an appliance in each shard.
func (c *cluster) appliances() (names []string) {
	for n := range c.shards {
		names = append(names, c.applianceIn(n))
	}
	return names
}

var started = time.Unix(7, 0).UTC()

// control returns a Control of the cluster, whose configuration has an appliance in each
// shard and the sinks lake and chat.
func (c *cluster) control(t testing.TB) *operations.Control {
	config := &configs.Config{State: t.TempDir() + "/state.db"}
	for _, name := range c.appliances() {
		config.Appliances = append(config.Appliances, configs.Appliance{Name: name, URL: "https://" + name + ".example"})
	}
	config.Sinks = []configs.Sink{{Name: "lake", File: &configs.File{}}, {Name: "chat", File: &configs.File{}}}
	return operations.New(operations.Options{
		Shards: c, Config: func() *configs.Config { return config }, Version: "1.2.3", Started: started,
	})
}

// check fails the test unless err has a text, or is nil if it is empty.
func check(t testing.TB, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("error %v, want %q", err, want)
	}
}
