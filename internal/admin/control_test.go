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
	dns        = checkpoint.Source{Appliance: "hq", Stream: "records/dns"}
)

// control is a Control on a real state with a sink lake and an appliance hq. Its fields
// replace what a method returns.
type control struct {
	missing error     // which Tail reports with Live
	tailed  sync.Once // closes tailing
	store   *checkpoint.Store
	path    string
	status  admin.Status
	history admin.History
	err     error // of every method
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
	if c.store, err = checkpoint.Open(c.path, checkpoint.Options{Limits: limits}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.store.Close(); err != nil {
			t.Error(err)
		}
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
	if commit.Expect, err = c.store.Position(t.Context(), detections); err != nil {
		t.Fatal(err)
	}
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
	cursor, err := c.store.Cursor(t.Context(), "lake")
	require.NoError(t, err)
	records, err := c.store.Read(t.Context(), cursor, checkpoint.Batch{})
	require.NoError(t, err)
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

func (c *control) Status(context.Context) (admin.Status, error) { return c.status, c.err }

func (c *control) History(context.Context) (admin.History, error) { return c.history, c.err }

func (c *control) Tail(ctx context.Context, from admin.From, yield func(transform.Event) error) error {
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
			if err := from.Live(c.missing); err != nil {
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

func (c *control) Dead(ctx context.Context, o checkpoint.Owner, after string, limit int) ([]checkpoint.DeadLetter, error) {
	if err := c.known(o); err != nil {
		return nil, err
	}
	return c.store.Dead(ctx, o, after, limit)
}

func (c *control) DeadGroups(ctx context.Context, o checkpoint.Owner) (admin.DeadGroups, error) {
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

func (c *control) DeadLetter(ctx context.Context, o checkpoint.Owner, key string) (checkpoint.DeadLetter, error) {
	if err := c.known(o); err != nil {
		return checkpoint.DeadLetter{}, err
	}
	deadLetter, found, err := c.store.DeadLetterOf(ctx, o, key)
	if err == nil && !found {
		err = fmt.Errorf("%w dead letter %q", admin.ErrUnknown, key)
	}
	return deadLetter, err
}

func (c *control) Requeue(ctx context.Context, sink string, keys []string) (int, error) {
	if err := c.known(checkpoint.SinkOwner(sink)); err != nil {
		return 0, err
	}
	return c.store.Requeue(ctx, sink, keys)
}

func (c *control) DropDead(ctx context.Context, o checkpoint.Owner, keys []string) (int, error) {
	if err := c.known(o); err != nil {
		return 0, err
	}
	return c.store.DropDead(ctx, o, keys)
}

func (c *control) Replay(ctx context.Context, sink string, r admin.Replay) (uint64, error) {
	if err := c.known(checkpoint.SinkOwner(sink)); err != nil {
		return 0, err
	}
	replay := c.store.Replay
	if r.DryRun {
		replay = c.store.Replayable
	}
	queued, err := replay(ctx, sink, checkpoint.Period{Since: r.Since, Until: r.Until})
	return queued.Events(), err
}

func (c *control) Pause(ctx context.Context, sink string) error  { return c.pause(ctx, sink, true) }
func (c *control) Resume(ctx context.Context, sink string) error { return c.pause(ctx, sink, false) }

func (c *control) pause(ctx context.Context, sink string, paused bool) error {
	if err := c.known(checkpoint.SinkOwner(sink)); err != nil {
		return err
	}
	return c.store.Pause(ctx, sink, paused)
}

func (c *control) Backup(ctx context.Context, w io.Writer) error {
	if c.err != nil {
		return c.err
	}
	if c.backup != nil {
		return c.backup(w)
	}
	_, err := c.store.Backup(ctx, w)
	return err
}

func (c *control) Reload(context.Context) (admin.Reloaded, error) { return c.reload, c.err }

func (c *control) Rewind(_ context.Context, source checkpoint.Source, to time.Time) error {
	c.rewoundTo = to
	return c.known(checkpoint.SourceOwner(source))
}

func (c *control) Verify(_ context.Context, _ string, _ time.Time, report poller.VerifyReport) ([]poller.Verification, error) {
	if c.verify == nil {
		return nil, c.err
	}
	return c.verify(report)
}

func (c *control) Detection(_ context.Context, appliance string, id int64) (admin.Detection, error) {
	if appliance != "hq" {
		return admin.Detection{}, fmt.Errorf("%w appliance %q", admin.ErrUnknown, appliance)
	}
	c.detection.Appliance, c.detection.ID = appliance, id
	return c.detection, c.err
}

func (c *control) Commands(ctx context.Context, f checkpoint.CommandFilter, after uint64, limit int) ([]checkpoint.Command, error) {
	if c.err != nil {
		return nil, c.err
	}
	return c.store.Commands(ctx, f, after, limit)
}

func (c *control) Command(ctx context.Context, id uint64) (checkpoint.Command, error) {
	command, found, err := c.store.Command(ctx, id)
	if err == nil && !found {
		err = fmt.Errorf("%w ticket command %d", admin.ErrUnknown, id)
	}
	return command, err
}

func (c *control) RetryCommand(ctx context.Context, id uint64) error {
	command, err := c.Command(ctx, id)
	if err == nil && command.State != checkpoint.CommandRejected {
		err = fmt.Errorf("it is %s: %w", command.State, admin.ErrNotRejected)
	}
	if err != nil {
		return err
	}
	return c.store.RetryCommand(ctx, id)
}

func (c *control) DropCommand(ctx context.Context, id uint64) error {
	if _, err := c.Command(ctx, id); err != nil {
		return err
	}
	_, err := c.store.DropCommands(ctx, []uint64{id})
	return err
}

// handler returns the options of a handler of a Control.
func handler(c admin.Control) admin.Options {
	return admin.Options{
		Token: token, NotReady: func() []string { return nil }, Metrics: prometheus.NewRegistry(),
		Control: func() admin.Control { return c },
		Tickets: func() admin.Tickets { return admin.Tickets{} },
	}
}

// serve serves a Control on a free port and returns a client for it.
func serve(t testing.TB, c admin.Control) (*admin.Client, *httptest.Server) {
	t.Helper()
	server := newServer(t, handler(c))
	client, err := admin.NewClient(server.URL, token)
	require.NoError(t, err)
	return client, server
}
