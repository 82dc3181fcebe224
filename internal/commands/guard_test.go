package commands_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/commands"
	"ndrbridge/poller"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// guarded is an appliance, its analysts, and a bridge that polls it and writes to
// it, in virtual time.
type guarded struct {
	*rapid.T
	standin *standin.Appliance
	now     time.Time
	store   *checkpoint.Store
	source  *poller.Detections
	writer  *commands.Writer

	ids     []int64
	edits   int
	written int              // commands
	since   map[int64]string // who wrote to a detection since the version delivered last: b for the bridge, a for an analyst
	seq     uint64           // of the event read last

	// midway lets analysts edit, and the bridge crash, while a command is carried
	// out: by default nothing happens.
	midway  func()
	crashes bool // it may crash
	crashed bool

	marks  map[string]bool  // of the events, by id, whether they were marked
	orders map[string][]int // the numbers of commands as they came to the appliance, by ticket
}

var errCrashed = errors.New("the bridge has crashed")

// RoundTrip serves a request without a network. What was sent before a crash may
// arrive, and its answer may not.
func (g *guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	g.midway()
	if g.crashed {
		return nil, errCrashed
	}
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	g.now = g.now.Add(time.Millisecond)
	before := len(g.standin.History())
	recorder := httptest.NewRecorder()
	g.standin.ServeHTTP(recorder, r)
	if r.Method == http.MethodPatch {
		for _, v := range g.standin.History()[before:] {
			g.since[v.ID] += "b"
		}
		g.record(body)
	}
	g.midway()
	if g.crashed {
		return nil, errCrashed
	}
	return recorder.Result(), nil
}

// rewind makes the bridge deliver some events again.
func (g *guarded) rewind() {
	back := time.Duration(rapid.IntRange(0, 600).Draw(g.T, "seconds back")) * time.Second
	g.must(poller.Rewind(g.Context(), g.store, g.source.Source(), g.now.Add(-back)))
	g.poll()
}

// record remembers the command that a PATCH belongs to.
func (g *guarded) record(body []byte) {
	var patch struct {
		TicketID string `json:"ticket_id"`
		Assignee string `json:"assignee"`
	}
	require.NoError(g, json.Unmarshal(body, &patch), "a PATCH is not JSON")
	if number, ok := strings.CutPrefix(patch.Assignee, "bridge-"); ok {
		n, _ := strconv.Atoi(number)
		g.orders[patch.TicketID] = append(g.orders[patch.TicketID], n)
	}
}

func newGuarded(t *rapid.T, dir string) *guarded {
	g := &guarded{
		T: t, now: time.UnixMilli(1_750_000_000_123),
		since: make(map[int64]string), orders: make(map[string][]int), midway: func() {},
		marks: make(map[string]bool),
	}
	g.standin = standin.New(standin.Options{Seed: 1, Size: 1000, Now: func() time.Time { return g.now }})
	var err error
	g.store, err = checkpoint.Open(filepath.Join(dir, "state.db"), checkpoint.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { g.store.Close() })
	g.start()
	g.poll() // the first contact
	for _, v := range g.standin.AddMany(4) {
		g.ids = append(g.ids, v.ID)
	}
	for i, id := range g.ids {
		g.must(g.standin.Update(func(d *standin.Detection) {
			d.TicketID = standin.TicketID{ID: fmt.Sprintf("SEC-%d", i/2)}
			d.Status, d.Resolution = "new", ""
		}, id))
	}
	g.now = g.now.Add(time.Second)
	g.poll()
	clear(g.since)
	return g
}

func (g *guarded) must(err error) {
	require.NoError(g, err)
}

// start makes a bridge from the state.
func (g *guarded) start() {
	g.crashed = false
	client, err := appliance.New(appliance.Options{
		URL: "http://sensor.example", Key: func() (string, error) { return standin.DefaultAPIKey, nil }, Transport: g,
	})
	g.must(err)
	ownWrites, err := commands.LoadOwnWrites(g.Context(), g.store, "hq")
	g.must(err)
	log, registry := slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	g.source = poller.NewDetections(client, g.store, poller.DetectionsOptions{
		StreamOptions: poller.StreamOptions{
			Appliance: "hq", URL: "http://sensor.example", PageSize: 10,
			Start: func(now time.Time) time.Time { return now.Add(-time.Hour) }, Now: func() time.Time { return g.now },
			Log: log, Metrics: poller.NewMetrics(registry),
		},
		Overlap: time.Minute, ForgetAfter: 90 * 24 * time.Hour,
		ReconcileEvery: 5 * time.Minute, ReconcileBack: time.Hour,
		OwnWrites: ownWrites,
	})
	g.writer = commands.NewWriter(client, &mortal{g.store, g}, ownWrites, commands.WriterOptions{
		Appliance: "hq", Kind: commands.KindTicket, RetryInitial: time.Nanosecond, RetryMax: time.Nanosecond, Probe: time.Nanosecond,
		Log: log, Metrics: commands.NewWriterMetrics(registry, commands.KindTicket),
	})
}

// mortal is the state of a bridge that may crash before or after each write.
type mortal struct {
	state
	g *guarded
}

type state interface{ commands.WriterStore }

func (m *mortal) Note(ctx context.Context, id uint64, note []byte, expect []checkpoint.Entry) error {
	return m.during(func() error { return m.state.Note(ctx, id, note, expect) })
}

func (m *mortal) Finish(ctx context.Context, o checkpoint.Outcome) error {
	return m.during(func() error { return m.state.Finish(ctx, o) })
}

func (m *mortal) during(write func() error) error {
	m.g.midway()
	if m.g.crashed {
		return errCrashed
	}
	err := write()
	m.g.midway()
	if m.g.crashed {
		return errCrashed
	}
	return err
}

// poll polls and judges the events.
func (g *guarded) poll() {
	midway := g.midway
	g.midway = func() {}
	defer func() { g.midway = midway }()
	_, err := g.source.Poll(g.Context())
	g.must(err)
	records, err := g.store.Read(g.Context(), g.seq, checkpoint.Batch{})
	g.must(err)
	for _, r := range records {
		g.seq = r.Seq
		g.judge(r.Event)
	}
}

// judge checks that an event is not marked if it shows what an analyst did, that it is if the
// bridge alone wrote to its detection since the last event, and that an event which is delivered
// again is not marked if it was not. After a crash, the versions that have to be marked are in
// TestVersionsThatShowOwnWrites.
func (g *guarded) judge(e transform.Event) {
	if !strings.HasSuffix(e.Source, "/detections") {
		return
	}
	id, _ := strconv.ParseInt(e.Subject, 10, 64)
	marked := e.CausedBy == transform.CausedByWriteback
	if was, again := g.marks[e.ID]; again {
		require.True(g, !marked || was, e.ID, "is marked as ours when a rewind delivers it again, and was not")
		return
	}
	g.marks[e.ID] = marked
	wrote := g.since[id]
	delete(g.since, id)
	if marked && (wrote == "" || regexp.MustCompile(`"to":"[^"]*analyst`).Match(g.changes(e))) {
		g.Fatalf("%s is marked as ours, and is not (%s): %s", e.ID, wrote, g.changes(e))
	}
	if !marked && wrote != "" && strings.Trim(wrote, "b") == "" && !g.crashes {
		g.Fatalf("%s is what the bridge wrote alone (%s), and is not marked: %s", e.ID, wrote, g.changes(e))
	}
}

func (g *guarded) changes(e transform.Event) json.RawMessage {
	var data struct{ Changes json.RawMessage }
	g.must(json.Unmarshal(e.Data(), &data))
	return data.Changes
}

// edit lets an analyst change a detection, in a way that shows it.
func (g *guarded) edit() {
	g.now = g.now.Add(time.Millisecond)
	g.edits++
	id := rapid.SampledFrom(g.ids).Draw(g.T, "edited")
	title := rapid.Bool().Draw(g.T, "the title")
	g.must(g.standin.Update(func(d *standin.Detection) {
		if title {
			d.Title = fmt.Sprintf("by analyst-%d", g.edits)
		} else {
			d.Assignee = standin.Text(fmt.Sprintf("analyst-%d", g.edits))
		}
	}, id))
	g.since[id] += "a"
}

// command gives the bridge a command.
func (g *guarded) command() {
	g.written++
	c := commands.Command{TicketID: fmt.Sprintf("SEC-%d", rapid.IntRange(0, 2).Draw(g.T, "ticket")), Appliance: "hq"}
	if rapid.Bool().Draw(g.T, "links") {
		c.DetectionID = rapid.SampledFrom(g.ids).Draw(g.T, "linked")
	}
	if rapid.Bool().Draw(g.T, "assigns") {
		assignee := fmt.Sprintf("bridge-%d", g.written)
		c.Assignee = &assignee
	}
	if rapid.Bool().Draw(g.T, "has a status") || c.Assignee == nil && c.DetectionID == 0 {
		c.Status = rapid.SampledFrom([]string{"new", "in_progress", "acknowledged", "closed"}).Draw(g.T, "status")
	}
	if c.Status == "closed" && rapid.Bool().Draw(g.T, "resolves") {
		c.Resolution = "action_taken"
	}
	body, err := json.Marshal(c)
	g.must(err)
	_, err = g.store.Accept(g.Context(), []checkpoint.Command{{Appliance: "hq", Subject: c.TicketID, Body: body, Accepted: time.Now()}})
	g.must(err)
}

// step lets the bridge write, and restarts it if it crashed.
func (g *guarded) step() {
	if g.pending() > 0 {
		g.writer.Step(g.Context())
	}
	if g.crashed {
		g.start()
	}
}

func (g *guarded) pending() int {
	waiting, err := g.store.Commands(g.Context(), checkpoint.CommandFilter{State: checkpoint.CommandPending}, 0, 1000)
	g.must(err)
	return len(waiting)
}

// finish lets the bridge finish all pending work.
func (g *guarded) finish() {
	g.midway = func() {}
	for i := 0; g.pending() > 0; i++ {
		if i > 1000 {
			g.Fatalf("%d commands still wait: %+v", g.pending(), g.writer.Status())
		}
		g.step()
	}
	g.now = g.now.Add(time.Second)
	g.poll()
	for id, wrote := range g.since {
		g.Fatalf("what %s wrote to detection %d was not delivered", wrote, id)
	}
	for ticket, numbers := range g.orders {
		for i := 1; i < len(numbers); i++ {
			require.True(g, numbers[i] >= numbers[i-1], "ticket", ticket, "was written out of order", numbers)
		}
	}
}

// live lets random actions happen in random order, then finishes all pending work.
func (g *guarded) live(rt *rapid.T) {
	steps := []string{"edit", "command", "write", "write", "poll", "rewind"}
	for range rapid.IntRange(1, 15).Draw(rt, "steps") {
		switch rapid.SampledFrom(steps).Draw(rt, "step") {
		case "rewind":
			g.rewind()
		case "edit":
			g.edit()
		case "command":
			g.command()
		case "write":
			g.step()
		case "poll":
			g.poll()
		}
	}
	g.finish()
}

func TestNoAnalystEditIsMarkedAsAnOwnWrite(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := newGuarded(rt, t.TempDir())
		g.crashes = rapid.Bool().Draw(rt, "it crashes")
		g.midway = func() {
			switch rapid.IntRange(0, 15).Draw(rt, "midway") {
			case 0:
				g.edit()
			case 1:
				g.crashed = g.crashes
			}
		}
		g.live(rt)
	})
}
