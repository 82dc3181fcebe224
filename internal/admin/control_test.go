package admin_test

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/admin"
	"ndrbridge/poller"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

const token = "s3cret"

var (
	lake       = checkpoint.SinkOwner("lake")
	detections = checkpoint.Source{Appliance: "hq", Stream: "detections"}
	ofLake     = admin.OfDead{Sink: "lake"}
	ofDNS      = admin.OfDead{Appliance: "hq", Stream: "records/dns"}
	dns        = checkpoint.Source{Appliance: "hq", Stream: "records/dns"}
)

// control is a bridge on a real state with a sink lake and an appliance hq. Its fields
// replace what an operation returns.
type control struct {
	tailed  sync.Once // closes tailing
	store   *checkpoint.Store
	path    string
	status  admin.Status
	history admin.History
	err     error // of every operation
	reload  admin.Reloaded
	backup  func(io.Writer) error
	// detection is what is known of every detection.
	detection admin.Detection
	tail      func(context.Context, func(transform.Event) error) error
	verify    func(poller.VerifyReport) ([]poller.Verification, error)

	tailing   chan struct{} // receives when Tail waits for events, and is closed when it has returned
	rewoundTo time.Time
	changes   []string // of what the state keeps
}

func newControl(t testing.TB) *control {
	t.Helper()
	c := &control{
		path: filepath.Join(t.TempDir(), "state.db"), tailing: make(chan struct{}, 1),
		status:  admin.Status{Appliances: []admin.ApplianceStatus{}, Sinks: []admin.SinkStatus{}},
		history: admin.History{Journal: admin.JournalHistory{Bytes: []*int64{}}, Streams: []admin.StreamHistory{}, Sinks: []admin.SinkHistory{}},
	}
	var err error
	limits := checkpoint.Limits{Retain: 100 * 365 * 24 * time.Hour} // the events date from 1970
	c.store, err = checkpoint.Open(c.path, checkpoint.Options{Limits: limits})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, c.store.Close())
	})
	require.NoError(t, c.store.Configure(t.Context(), map[string]checkpoint.Start{"lake": {}}))
	return c
}

// journal commits count events to the journal. Event n, counted from 1, was recorded at
// second n and has fill, a JSON value, as its data.
func (c *control) journal(t testing.TB, count int, fill string) {
	t.Helper()
	stats, err := c.store.Stats(t.Context())
	require.NoError(t, err)
	commit := checkpoint.Commit{Source: detections}
	commit.Expect, err = c.store.Position(t.Context(), detections)
	require.NoError(t, err)
	for n := int(stats.Last) + 1; n <= int(stats.Last)+count; n++ {
		commit.Events = append(commit.Events, event(t, n, fill))
		commit.Position = []byte(strconv.Itoa(n))
	}
	require.NoError(t, c.store.Commit(t.Context(), commit))
}

func event(t testing.TB, n int, fill string) transform.Event {
	t.Helper()
	e, err := transform.New(transform.Attributes{
		ID: strconv.Itoa(n), Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection.created",
		Appliance: "hq", RecordedTime: time.Unix(int64(n), 0),
	}, []byte(fill))
	require.NoError(t, err)
	return e
}

// deliver moves the cursor of lake to the end of the journal and dead-letters the first
// n events.
func (c *control) deliver(t testing.TB, n int) {
	t.Helper()
	cursor := require.Value(c.store.Cursor(t.Context(), "lake"))(t)
	records := require.Value(c.store.Read(t.Context(), cursor, checkpoint.Batch{}))(t)
	s := checkpoint.Delivery{Sink: "lake", Expect: cursor, Cursor: records[len(records)-1].Seq}
	for _, r := range records[:n] {
		s.Dead = append(s.Dead, checkpoint.DeadLetter{
			Key: checkpoint.DeadKey(r.Seq), Class: "rejected", Reason: "422 <no>", Time: time.Unix(1000, 0).UTC(), Body: r.Event.Structured(),
		})
	}
	require.NoError(t, c.store.CommitDelivery(t.Context(), s))
}

// sourceDead dead-letters objects of a source.
func (c *control) sourceDead(t testing.TB, source checkpoint.Source, deadLetters ...checkpoint.DeadLetter) {
	t.Helper()
	expect, err := c.store.Position(t.Context(), source)
	if err == nil {
		err = c.store.Commit(t.Context(), checkpoint.Commit{Source: source, Expect: expect, Position: []byte("1"), Dead: deadLetters})
	}
	require.NoError(t, err)
}

func (c *control) known(o checkpoint.Owner) error {
	if c.err != nil {
		return c.err
	}
	if o != lake && o != checkpoint.SourceOwner(detections) && o != checkpoint.SourceOwner(dns) {
		return fmt.Errorf("%w owner %q: there is lake", admin.ErrUnknown, o)
	}
	return nil
}

// client returns a client of the operations.
func (c *control) client() *admin.Client {
	all := make(admin.Operations)
	admin.API.GetStatus.By(all, func(context.Context, admin.None) (admin.Status, error) { return c.status, c.err })
	admin.API.GetHistory.By(all, func(context.Context, admin.None) (admin.History, error) { return c.history, c.err })
	admin.API.Reload.By(all, func(context.Context, admin.None) (admin.Reloaded, error) { return c.reload, c.err })
	admin.API.ListDeadLetters.By(all, c.dead)
	admin.API.GroupDeadLetters.By(all, c.deadGroups)
	admin.API.GetDeadLetter.By(all, c.deadLetter)
	admin.API.RequeueDeadLetters.By(all, c.requeue)
	admin.API.DropDeadLetters.By(all, c.dropDead)
	admin.API.ReplayEvents.By(all, c.replay)
	admin.API.Verify.By(all, c.compare)
	admin.API.GetDetection.By(all, c.find)
	admin.API.ListTicketCommands.By(all, c.listCommands)
	admin.API.GetTicketCommand.By(all, c.command)
	admin.API.RetryTicketCommand.By(all, c.retryCommand)
	admin.API.DropTicketCommand.By(all, c.dropCommand)
	admin.API.TailEvents.By(all, c.follow)
	admin.API.Backup.By(all, c.copy)
	admin.API.PauseSink.By(all, func(ctx context.Context, r admin.OfSink) error { return c.pause(ctx, r.Sink, true) })
	admin.API.ResumeSink.By(all, func(ctx context.Context, r admin.OfSink) error { return c.pause(ctx, r.Sink, false) })
	admin.API.Rewind.By(all, func(_ context.Context, r admin.RewindRequest) error {
		c.rewoundTo = r.To
		return c.known(checkpoint.SourceOwner(checkpoint.Source{Appliance: r.Appliance, Stream: r.Stream}))
	})
	admin.API.ForgetSink.By(all, func(_ context.Context, r admin.OfSink) error { return c.change("forget " + r.Sink) })
	admin.API.RenameSink.By(all, func(_ context.Context, r admin.RenameRequest) error {
		return c.change("rename " + r.Sink + " to " + r.To)
	})
	admin.API.ForgetAppliance.By(all, func(_ context.Context, r admin.ForgetRequest) error {
		if r.Identity {
			return c.change("forget identity " + r.Appliance)
		}
		return c.change("forget appliance " + r.Appliance)
	})
	return admin.NewLocal(all)
}

func (c *control) follow(ctx context.Context, r admin.TailRequest) error {
	from, yield := r.From, r.Yield
	defer c.tailed.Do(func() { close(c.tailing) })
	if c.err != nil {
		return c.err
	}
	if c.tail != nil {
		return c.tail(ctx, yield)
	}
	stats, err := c.store.Stats(ctx)
	if err != nil {
		return err
	}
	after := stats.Last - min(stats.Last, from.Last)
	if !from.Since.IsZero() {
		after = 0
	}
	for {
		records, err := c.store.Read(ctx, after, checkpoint.Batch{MaxEvents: 100})
		if err != nil {
			return err
		}
		for _, r := range records {
			after = r.Seq
			if r.Event.RecordedTime.Before(from.Since) {
				continue
			}
			if err := yield(r.Event); err != nil {
				return err
			}
		}
		select {
		case c.tailing <- struct{}{}:
		default:
		}
		if from.Live != nil {
			if err := from.Live(); err != nil {
				return err
			}
			from.Live = nil
		}
		if err := c.store.Wait(ctx, after); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

func (c *control) dead(ctx context.Context, r admin.DeadRequest) (admin.DeadPage, error) {
	if err := c.known(r.Owner()); err != nil {
		return admin.DeadPage{}, err
	}
	return admin.NewDeadPage(r, func(after string) ([]checkpoint.DeadLetter, error) { return c.store.Dead(ctx, r.Owner(), after, 1) })
}

func (c *control) deadGroups(ctx context.Context, r admin.GroupsRequest) (admin.DeadGroups, error) {
	o := r.Owner()
	if o == "" {
		o = checkpoint.SinkOwner("lake")
	}
	if err := c.known(o); err != nil {
		return admin.DeadGroups{}, err
	}
	heads, err := c.store.DeadHeads(ctx, o, "", 100)
	var grouping admin.DeadGrouping
	for _, d := range heads {
		grouping.AddTotal(1)
		grouping.Add(o, d)
	}
	return grouping.Groups(), err
}

func (c *control) deadLetter(ctx context.Context, r admin.OfDeadLetter) (admin.DeadLetter, error) {
	if err := c.known(r.Owner()); err != nil {
		return admin.DeadLetter{}, err
	}
	deadLetter, found, err := c.store.DeadLetterOf(ctx, r.Owner(), r.Key)
	if err == nil && !found {
		err = fmt.Errorf("%w dead letter %q", admin.ErrUnknown, r.Key)
	}
	return admin.NewDeadLetter(deadLetter, true), err
}

func (c *control) requeue(ctx context.Context, r admin.Selection) (admin.Requeued, error) {
	if err := c.known(r.Owner()); err != nil {
		return admin.Requeued{}, err
	}
	n, err := c.store.Requeue(ctx, r.Sink, r.Keys)
	return admin.Requeued{N: n}, err
}

func (c *control) dropDead(ctx context.Context, r admin.Selection) (admin.Dropped, error) {
	if err := c.known(r.Owner()); err != nil {
		return admin.Dropped{}, err
	}
	n, err := c.store.DropDead(ctx, r.Owner(), r.Keys)
	return admin.Dropped{N: n}, err
}

func (c *control) replay(ctx context.Context, r admin.ReplayRequest) (admin.Replayed, error) {
	if err := c.known(checkpoint.SinkOwner(r.Sink)); err != nil {
		return admin.Replayed{}, err
	}
	replay := c.store.Replay
	if r.DryRun {
		replay = c.store.Replayable
	}
	queued, err := replay(ctx, r.Sink, checkpoint.Period{Since: r.Since, Until: r.Until})
	return admin.Replayed{Events: queued.Events()}, err
}

func (c *control) pause(ctx context.Context, sink string, paused bool) error {
	if err := c.known(checkpoint.SinkOwner(sink)); err != nil {
		return err
	}
	return c.store.Pause(ctx, sink, paused)
}

func (c *control) copy(ctx context.Context, r admin.BackupRequest) error {
	if c.err != nil {
		return c.err
	}
	if c.backup != nil {
		return c.backup(r.To)
	}
	_, err := c.store.Backup(ctx, r.To)
	return err
}

func (c *control) compare(_ context.Context, r admin.VerifyRequest) ([]poller.Verification, error) {
	if c.verify == nil {
		return nil, c.err
	}
	return c.verify(r.Report)
}

func (c *control) find(_ context.Context, r admin.DetectionRequest) (admin.Detection, error) {
	if r.Appliance != "hq" {
		return admin.Detection{}, fmt.Errorf("%w appliance %q", admin.ErrUnknown, r.Appliance)
	}
	c.detection.Appliance, c.detection.ID = r.Appliance, r.ID
	return c.detection, c.err
}

func (c *control) listCommands(ctx context.Context, r admin.CommandsRequest) (admin.CommandPage, error) {
	if c.err != nil {
		return admin.CommandPage{}, c.err
	}
	commands, err := c.store.Commands(ctx, r.Filter(), r.After, r.Limit+1)
	return admin.NewCommandPage(commands, r.Limit), err
}

func (c *control) command(ctx context.Context, r admin.OfCommand) (admin.TicketCommand, error) {
	command, found, err := c.store.Command(ctx, r.ID)
	if err == nil && !found {
		err = fmt.Errorf("%w ticket command %d", admin.ErrUnknown, r.ID)
	}
	return admin.NewTicketCommand(command), err
}

func (c *control) retryCommand(ctx context.Context, r admin.OfCommand) error {
	command, err := c.command(ctx, r)
	if err == nil && command.Status != checkpoint.CommandRejected {
		err = fmt.Errorf("it is %s: %w", command.Status, admin.ErrNotRejected)
	}
	if err != nil {
		return err
	}
	return c.store.RetryCommand(ctx, r.ID)
}

func (c *control) dropCommand(ctx context.Context, r admin.OfCommand) error {
	if _, err := c.command(ctx, r); err != nil {
		return err
	}
	_, err := c.store.DropCommands(ctx, []uint64{r.ID})
	return err
}

// handler returns the options of a handler of a bridge; nil: its state is being opened.
func handler(c *control) admin.Options {
	var client *admin.Client
	if c != nil {
		client = c.client()
	}
	return handlerOf(client)
}

func handlerOf(c *admin.Client) admin.Options {
	return admin.Options{
		Token: token, NotReady: func() []string { return nil }, Metrics: prometheus.NewRegistry(),
		Control: func() *admin.Client { return c },
		Tickets: func() admin.Tickets { return admin.Tickets{} },
	}
}

// serve serves a bridge on a free port and returns a client for it.
func serve(t testing.TB, c *control) (*admin.Client, *httptest.Server) {
	t.Helper()
	return serveWith(t, handler(c))
}

func serveWith(t testing.TB, o admin.Options) (*admin.Client, *httptest.Server) {
	t.Helper()
	server := newServer(t, o)
	client := require.Value(admin.NewClient(server.URL, token))(t)
	return client, server
}
