package operations_test

import (
	"context"
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
	"ndrbridge/poller"
	"ndrbridge/transform"
)

// errDown is the error of a shard without an owner.
var errDown = fmt.Errorf("no member owns it: %w", admin.ErrUnavailable)

// shard is a shard in memory, safe for concurrent use. Its fields replace what an operation
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
	err       error // of every operation
	dead      map[checkpoint.Owner]map[string]checkpoint.DeadLetter
	commands  []checkpoint.Command
	paused    map[string]bool // by sinks that it knows
	rewound   checkpoint.Source
	asked     int // how often appliances were asked
	forgotten []string
}

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

// client returns a client of the shard.
func (s *shard) client() *admin.Client {
	all := make(admin.Operations)
	admin.OpStatus.By(all, func(context.Context, admin.None) (admin.Status, error) {
		leave, err := s.enter()
		defer leave()
		return s.status, err
	})
	admin.OpHistory.By(all, func(context.Context, admin.None) (admin.History, error) {
		leave, err := s.enter()
		defer leave()
		return s.history, err
	})
	admin.OpTail.By(all, func(ctx context.Context, r admin.TailRequest) error {
		leave, err := s.enter()
		leave()
		if err != nil {
			return err
		}
		return s.tail(ctx, r.From, r.Yield)
	})
	admin.OpBackup.By(all, func(_ context.Context, r admin.BackupRequest) error {
		leave, err := s.enter()
		defer leave()
		if err != nil {
			return err
		}
		_, err = io.WriteString(r.To, s.backup)
		return err
	})
	admin.OpRewind.By(all, func(_ context.Context, r admin.RewindRequest) error {
		leave, err := s.enter()
		defer leave()
		s.rewound = checkpoint.Source{Appliance: r.Appliance, Stream: r.Stream}
		return err
	})
	admin.OpVerify.By(all, func(context.Context, admin.VerifyRequest) ([]poller.Verification, error) {
		leave, err := s.enter()
		defer leave()
		return s.verified, err
	})
	admin.OpReplay.By(all, func(_ context.Context, r admin.ReplayRequest) (admin.Replayed, error) {
		leave, _ := s.enter()
		defer leave()
		if err := s.knows(checkpoint.SinkOwner(r.Sink)); err != nil {
			return admin.Replayed{}, err
		}
		return admin.Replayed{Events: s.replayed}, nil
	})
	admin.OpPause.By(all, func(_ context.Context, r admin.OfSink) error { return s.pause(r.Sink, true) })
	admin.OpResume.By(all, func(_ context.Context, r admin.OfSink) error { return s.pause(r.Sink, false) })
	admin.OpForget.By(all, func(_ context.Context, r admin.OfSink) error { return s.forget(r.Sink, "") })
	admin.OpRename.By(all, func(_ context.Context, r admin.RenameRequest) error { return s.forget(r.Sink, r.To) })
	admin.OpForgetAppliance.By(all, func(_ context.Context, r admin.ForgetRequest) error {
		leave, err := s.enter()
		defer leave()
		name := r.Appliance
		if r.Identity {
			name = "identity of " + name
		}
		s.forgotten = append(s.forgotten, name)
		return err
	})
	admin.OpDead.By(all, s.listDead)
	admin.OpDeadGroups.By(all, s.deadGroups)
	admin.OpDeadLetter.By(all, s.deadLetter)
	admin.OpDropDead.By(all, func(_ context.Context, r admin.Selection) (admin.Dropped, error) {
		n, err := s.drop(r)
		return admin.Dropped{N: n}, err
	})
	admin.OpRequeue.By(all, func(_ context.Context, r admin.Selection) (admin.Requeued, error) {
		n, err := s.drop(r)
		return admin.Requeued{N: n}, err
	})
	admin.OpDetection.By(all, s.detection)
	admin.OpCommands.By(all, s.listCommands)
	admin.OpCommand.By(all, s.command)
	admin.OpRetryCommand.By(all, func(ctx context.Context, r admin.OfCommand) error {
		_, err := s.command(ctx, r)
		return err
	})
	admin.OpDropCommand.By(all, s.dropCommand)
	admin.OpLocate.By(all, func(_ context.Context, r admin.LocateRequest) ([]string, error) { return s.locate(r.Ask) })
	admin.OpAccept.By(all, func(_ context.Context, r admin.AcceptRequest) ([]checkpoint.Acceptance, error) {
		return s.accept(r.Stored()...)
	})
	return admin.NewLocal(all)
}

func (s *shard) listDead(_ context.Context, r admin.DeadRequest) (admin.DeadPage, error) {
	leave, _ := s.enter()
	defer leave()
	o := r.Owner()
	if err := s.knows(o); err != nil {
		return admin.DeadPage{}, err
	}
	return admin.NewDeadPage(r, func(after string) ([]checkpoint.DeadLetter, error) {
		for _, key := range slices.Sorted(maps.Keys(s.dead[o])) {
			if after == "" || key > after {
				return []checkpoint.DeadLetter{s.dead[o][key]}, nil
			}
		}
		return nil, nil
	})
}

func (s *shard) deadGroups(_ context.Context, r admin.GroupsRequest) (admin.DeadGroups, error) {
	leave, _ := s.enter()
	defer leave()
	o := r.Owner()
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

func (s *shard) deadLetter(_ context.Context, r admin.OfDeadLetter) (admin.DeadLetter, error) {
	leave, _ := s.enter()
	defer leave()
	if err := s.knows(r.Owner()); err != nil {
		return admin.DeadLetter{}, err
	}
	d, ok := s.dead[r.Owner()][r.Key]
	if !ok {
		return admin.DeadLetter{}, fmt.Errorf("%w dead letter %q", admin.ErrUnknown, r.Key)
	}
	return admin.NewDeadLetter(d, true), nil
}

func (s *shard) drop(r admin.Selection) (n int, err error) {
	leave, _ := s.enter()
	defer leave()
	o, keys := r.Owner(), r.Keys
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

func (s *shard) pause(sink string, paused bool) error {
	leave, _ := s.enter()
	defer leave()
	if err := s.knows(checkpoint.SinkOwner(sink)); err != nil {
		return err
	}
	s.paused[sink] = paused
	return nil
}

func (s *shard) detection(_ context.Context, r admin.DetectionRequest) (admin.Detection, error) {
	leave, err := s.enter()
	defer leave()
	return admin.Detection{Appliance: r.Appliance, ID: r.ID, Versions: []admin.DetectionVersion{{
		Seq: 7, Event: []byte("{}"), Sinks: []admin.DetectionDelivery{{Sink: "lake", Result: admin.ResultDeadLetter, Key: "7"}, {Sink: "soc", Result: admin.ResultPending}},
	}}}, err
}

func (s *shard) listCommands(_ context.Context, r admin.CommandsRequest) (admin.CommandPage, error) {
	leave, err := s.enter()
	defer leave()
	var found []checkpoint.Command
	for _, c := range s.commands {
		if c.ID > r.After && (r.Appliance == "" || r.Appliance == c.Appliance) && (r.Ticket == "" || r.Ticket == c.Subject) {
			found = append(found, c)
		}
	}
	return admin.NewCommandPage(found, r.Limit), err
}

func (s *shard) command(_ context.Context, r admin.OfCommand) (admin.TicketCommand, error) {
	leave, err := s.enter()
	defer leave()
	if err != nil {
		return admin.TicketCommand{}, err
	}
	i := slices.IndexFunc(s.commands, func(c checkpoint.Command) bool { return c.ID == r.ID })
	if i < 0 {
		return admin.TicketCommand{}, fmt.Errorf("%w ticket command %d", admin.ErrUnknown, r.ID)
	}
	return admin.NewTicketCommand(s.commands[i]), nil
}

func (s *shard) dropCommand(ctx context.Context, r admin.OfCommand) error {
	if _, err := s.command(ctx, r); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commands = slices.DeleteFunc(s.commands, func(c checkpoint.Command) bool { return c.ID == r.ID })
	return nil
}

// forget forgets a sink, which has another name afterwards if to is not empty.
func (s *shard) forget(sink, to string) error {
	leave, _ := s.enter()
	defer leave()
	if err := s.knows(checkpoint.SinkOwner(sink)); err != nil {
		return err
	}
	delete(s.paused, sink)
	if to != "" {
		s.paused[to] = false
	}
	return nil
}

func (s *shard) locate(ask bool) ([]string, error) {
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

func (s *shard) accept(commands ...checkpoint.Command) (all []checkpoint.Acceptance, err error) {
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
	reach   func(n int) *admin.Client // nil: the shards themselves
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

func (c *cluster) Shard(n int) *admin.Client {
	if c.reach != nil {
		return c.reach(n)
	}
	return c.shards[n].client()
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
func (c *cluster) control(t testing.TB) *admin.Client {
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
