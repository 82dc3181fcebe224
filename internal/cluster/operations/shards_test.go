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

// serve has an operation carried out while the shard is locked, unless it fails.
func serve[Req, Answer any](s *shard, all admin.Operations, o admin.Operation[Req, Answer], do func(Req) (Answer, error)) {
	o.By(all, func(_ context.Context, r Req) (answer Answer, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.err != nil {
			return answer, s.err
		}
		return do(r)
	})
}

// act is serve for an action.
func act[Req any](s *shard, all admin.Operations, a admin.Action[Req], do func(Req) error) {
	serve(s, all, a.Operation, func(r Req) (admin.None, error) { return admin.None{}, do(r) })
}

func (s *shard) knows(o checkpoint.Owner) error {
	if sink, ok := o.Sink(); ok {
		if _, ok := s.paused[sink]; !ok {
			return fmt.Errorf("%w sink %q", admin.ErrUnknown, sink)
		}
	}
	return nil
}

// client returns a client of the shard.
func (s *shard) client() *admin.Client {
	all := make(admin.Operations)
	serve(s, all, admin.API.GetStatus, func(admin.None) (admin.Status, error) { return s.status, nil })
	serve(s, all, admin.API.GetHistory, func(admin.None) (admin.History, error) { return s.history, nil })
	serve(s, all, admin.API.Verify, func(admin.VerifyRequest) ([]poller.Verification, error) { return s.verified, nil })
	serve(s, all, admin.API.ListDeadLetters, s.listDead)
	serve(s, all, admin.API.GroupDeadLetters, s.deadGroups)
	serve(s, all, admin.API.GetDeadLetter, s.deadLetter)
	serve(s, all, admin.API.GetDetection, s.detection)
	serve(s, all, admin.API.ListTicketCommands, s.listCommands)
	serve(s, all, admin.API.GetTicketCommand, s.command)
	serve(s, all, admin.API.DropDeadLetters, func(r admin.Selection) (admin.Dropped, error) {
		n, err := s.drop(r)
		return admin.Dropped{N: n}, err
	})
	serve(s, all, admin.API.RequeueDeadLetters, func(r admin.Selection) (admin.Requeued, error) {
		n, err := s.drop(r)
		return admin.Requeued{N: n}, err
	})
	serve(s, all, admin.API.ReplayEvents, func(r admin.ReplayRequest) (admin.Replayed, error) {
		return admin.Replayed{Events: s.replayed}, s.knows(checkpoint.SinkOwner(r.Sink))
	})
	serve(s, all, admin.API.Locate, func(r admin.LocateRequest) ([]string, error) { return s.locate(r.Ask), nil })
	serve(s, all, admin.API.Accept, func(r admin.AcceptRequest) ([]checkpoint.Acceptance, error) { return s.accept(r.Commands...), nil })
	act(s, all, admin.API.PauseSink, func(r admin.OfSink) error { return s.pause(r.Sink, true) })
	act(s, all, admin.API.ResumeSink, func(r admin.OfSink) error { return s.pause(r.Sink, false) })
	act(s, all, admin.API.ForgetSink, func(r admin.OfSink) error { return s.forget(r.Sink, "") })
	act(s, all, admin.API.RenameSink, func(r admin.RenameRequest) error { return s.forget(r.Sink, r.To) })
	act(s, all, admin.API.Rewind, func(r admin.RewindRequest) error {
		s.rewound = checkpoint.Source{Appliance: r.Appliance, Stream: r.Stream}
		return nil
	})
	act(s, all, admin.API.Backup, func(r admin.BackupRequest) error {
		_, err := io.WriteString(r.To, s.backup)
		return err
	})
	act(s, all, admin.API.ForgetAppliance, func(r admin.ForgetRequest) error {
		name := r.Appliance
		if r.Identity {
			name = "identity of " + name
		}
		s.forgotten = append(s.forgotten, name)
		return nil
	})
	act(s, all, admin.API.RetryTicketCommand, func(r admin.OfCommand) error {
		_, err := s.command(r)
		return err
	})
	act(s, all, admin.API.DropTicketCommand, func(r admin.OfCommand) error {
		_, err := s.command(r)
		s.commands = slices.DeleteFunc(s.commands, func(c checkpoint.Command) bool { return c.ID == r.ID })
		return err
	})
	admin.API.TailEvents.By(all, func(ctx context.Context, r admin.TailRequest) error {
		s.mu.Lock()
		err := s.err
		s.mu.Unlock() // a tail does not end
		if err != nil {
			return err
		}
		return s.tail(ctx, r.From, r.Yield)
	})
	return admin.NewLocal(all)
}

func (s *shard) listDead(r admin.DeadRequest) (admin.DeadPage, error) {
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

func (s *shard) deadGroups(r admin.GroupsRequest) (admin.DeadGroups, error) {
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

func (s *shard) deadLetter(r admin.OfDeadLetter) (admin.DeadLetter, error) {
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
	err := s.knows(checkpoint.SinkOwner(sink))
	if err == nil {
		s.paused[sink] = paused
	}
	return err
}

// forget forgets a sink, which has another name afterwards if to is not empty.
func (s *shard) forget(sink, to string) error {
	if err := s.knows(checkpoint.SinkOwner(sink)); err != nil {
		return err
	}
	delete(s.paused, sink)
	if to != "" {
		s.paused[to] = false
	}
	return nil
}

func (s *shard) detection(r admin.DetectionRequest) (admin.Detection, error) {
	return admin.Detection{Appliance: r.Appliance, ID: r.ID, Versions: []admin.DetectionVersion{{
		Seq: 7, Event: []byte("{}"), Sinks: []admin.DetectionDelivery{{Sink: "lake", Result: admin.ResultDeadLetter, Key: "7"}, {Sink: "soc", Result: admin.ResultPending}},
	}}}, nil
}

func (s *shard) listCommands(r admin.CommandsRequest) (admin.CommandPage, error) {
	var found []checkpoint.Command
	for _, c := range s.commands {
		if c.ID > r.After && (r.Appliance == "" || r.Appliance == c.Appliance) && (r.Ticket == "" || r.Ticket == c.Subject) {
			found = append(found, c)
		}
	}
	return admin.NewCommandPage(found, r.Limit), nil
}

func (s *shard) command(r admin.OfCommand) (admin.TicketCommand, error) {
	i := slices.IndexFunc(s.commands, func(c checkpoint.Command) bool { return c.ID == r.ID })
	if i < 0 {
		return admin.TicketCommand{}, fmt.Errorf("%w ticket command %d", admin.ErrUnknown, r.ID)
	}
	return admin.NewTicketCommand(s.commands[i]), nil
}

func (s *shard) locate(ask bool) []string {
	if ask {
		s.asked++
		return s.has
	}
	return s.remembers
}

func (s *shard) accept(commands ...checkpoint.Command) (all []checkpoint.Acceptance) {
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
	return all
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
