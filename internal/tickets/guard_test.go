package tickets_test

import (
	"cmp"
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
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/tickets"
	"ndrbridge/poller"
	standin "ndrbridge/test/appliance"
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
	writer  *tickets.Writer

	ids     []int64
	edits   int
	written int              // commands
	since   map[int64]string // who wrote to a detection since the version delivered last: b for the bridge, r for its raise, a for an analyst
	seq     uint64           // of the event read last

	// midway lets analysts edit, and the bridge crash, while a command is carried
	// out: by default nothing happens.
	midway  func()
	crashes bool // it may crash
	crashed bool

	// late says that the appliance shows what a PATCH changes at once, and raises
	// mod_time when raise is called.
	late   bool
	raises []int64                           // of which detections it has yet to raise mod_time, once for each PATCH
	shown  map[int64]fields                  // its fields when it was delivered last
	marks  map[string]bool                   // of the events, by id, whether they were marked
	wrote  map[int64]map[string]standin.Text // the values that the bridge wrote to a detection since the version delivered last, by field
	orders map[string][]int                  // the numbers of commands as they came to the appliance, by ticket
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
	latest, shown := g.standin.Latest(), make(map[int64]fields)
	for _, id := range g.ids {
		shown[id] = g.show(id)
	}
	recorder := httptest.NewRecorder()
	g.standin.ServeHTTP(recorder, r)
	if r.Method == http.MethodPatch {
		for _, v := range g.standin.History()[before:] {
			g.since[v.ID] += "b"
			if g.late {
				g.keepModTime(v.ID, latest)
			}
			g.note(v.ID, shown[v.ID], body)
		}
		g.record(body)
	}
	g.midway()
	if g.crashed {
		return nil, errCrashed
	}
	return recorder.Result(), nil
}

// note records the changes of the bridge to a detection that showed the given fields. A value that
// an analyst had set before is the analyst's.
func (g *guarded) note(id int64, shown fields, patch []byte) {
	if g.wrote[id] == nil {
		g.wrote[id] = make(map[string]standin.Text)
	}
	before := shown.byName()
	for name, value := range shown.with(patch).byName() {
		if value != before[name] {
			g.wrote[id][name] = value
		}
	}
}

// byName returns the fields that analysts and the bridge change.
func (f fields) byName() map[string]standin.Text {
	f = f.read()
	return map[string]standin.Text{"status": f.Status, "resolution": f.Resolution, "assignee": f.Assignee, "ticket_id": standin.Text(f.TicketID), "title": standin.Text(f.Title)}
}

// isOurs reports whether everything that differs between two versions of a detection is what
// the bridge wrote last since, and all of that is shown.
func (g *guarded) isOurs(id int64, was, is fields) (ours, changed bool) {
	before, after, wrote := was.byName(), is.byName(), g.wrote[id]
	ours = len(wrote) > 0
	for name, value := range after {
		written, there := wrote[name]
		changed = changed || value != before[name]
		ours = ours && (value == before[name] || there) && (!there || value == written)
	}
	return ours, changed
}

// keepModTime gives a detection the mod_time back that it had, until raise.
func (g *guarded) keepModTime(id int64, latest []*standin.Version) {
	i := slices.IndexFunc(latest, func(v *standin.Version) bool { return v.ID == id })
	g.must(g.standin.Update(func(d *standin.Detection) { d.ModTime = latest[i].ModTime }, id))
	g.raises = append(g.raises, id)
}

// raise raises the mod_time of a detection that the bridge wrote to.
func (g *guarded) raise() {
	if len(g.raises) == 0 {
		return
	}
	i := rapid.IntRange(0, len(g.raises)-1).Draw(g.T, "raised")
	id := g.raises[i]
	g.raises = slices.Delete(g.raises, i, i+1)
	g.now = g.now.Add(time.Millisecond)
	g.must(g.standin.Update(func(*standin.Detection) {}, id))
	g.since[id] += "r"
}

// fields are the fields of a detection that analysts and the bridge change.
type fields struct {
	Status, Resolution, Assignee standin.Text
	TicketID, Title              string
}

// with returns what f is after a PATCH.
func (f fields) with(patch []byte) fields {
	var p struct {
		Status, Resolution, Assignee standin.Text
		TicketID                     string `json:"ticket_id"`
	}
	if json.Unmarshal(patch, &p) != nil {
		return f
	}
	f.Status, f.Assignee = cmp.Or(p.Status, f.Status), cmp.Or(p.Assignee, f.Assignee)
	if f.Resolution = cmp.Or(p.Resolution, f.Resolution); p.Status != "" && p.Status != "closed" {
		f.Resolution = ""
	}
	f.TicketID = cmp.Or(p.TicketID, f.TicketID)
	return f
}

// read returns f as the bridge compares it: to it, null is an empty text.
func (f fields) read() fields {
	for _, text := range []*standin.Text{&f.Status, &f.Resolution, &f.Assignee} {
		*text = standin.Text(strings.TrimPrefix(string(*text), string(standin.Null)))
	}
	return f
}

// show returns the fields of a detection that analysts and the bridge change.
func (g *guarded) show(id int64) fields {
	for _, v := range g.standin.Latest() {
		if d := v.Detection(); d.ID == id {
			return fields{d.Status, d.Resolution, d.Assignee, d.TicketID.ID, d.Title}
		}
	}
	g.Fatalf("detection %d is gone", id)
	return fields{}
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
	if err := json.Unmarshal(body, &patch); err != nil {
		g.Fatalf("a PATCH is not JSON: %v", err)
	}
	if number, ok := strings.CutPrefix(patch.Assignee, "bridge-"); ok {
		n, _ := strconv.Atoi(number)
		g.orders[patch.TicketID] = append(g.orders[patch.TicketID], n)
	}
}

func newGuarded(t *rapid.T, dir string) *guarded {
	g := &guarded{
		T: t, now: time.UnixMilli(1_750_000_000_123),
		since: make(map[int64]string), orders: make(map[string][]int), midway: func() {},
		shown: make(map[int64]fields), marks: make(map[string]bool), wrote: make(map[int64]map[string]standin.Text),
	}
	g.standin = standin.New(standin.Options{Seed: 1, Size: 1000, Now: func() time.Time { return g.now }})
	var err error
	if g.store, err = checkpoint.Open(filepath.Join(dir, "state.db"), checkpoint.Options{}); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		g.Fatalf("%v", err)
	}
}

// start makes a bridge from the state.
func (g *guarded) start() {
	g.crashed = false
	client, err := appliance.New(appliance.Options{
		URL: "http://sensor.example", Key: func() (string, error) { return standin.DefaultAPIKey, nil }, Transport: g,
	})
	g.must(err)
	ownWrites, err := tickets.LoadOwnWrites(g.Context(), g.store, "hq")
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
	g.writer = tickets.NewWriter(client, &mortal{g.store, g}, ownWrites, tickets.WriterOptions{
		Appliance: "hq", RetryInitial: time.Nanosecond, RetryMax: time.Nanosecond, Probe: time.Nanosecond,
		Log: log, Metrics: tickets.NewWriterMetrics(registry),
	})
}

// mortal is the state of a bridge that may crash before or after each write.
type mortal struct {
	state
	g *guarded
}

type state interface{ tickets.WriterStore }

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

// judge compares an event with the writes to its detection since the last event, or, if
// it is delivered again, with its first delivery. After a crash, and if mod_time is raised late,
// it only checks that nothing is marked that shows what an analyst did: the cases in which a
// version has to be marked then are in TestVersionsThatShowOwnWrites.
func (g *guarded) judge(e transform.Event) {
	if !strings.HasSuffix(e.Source, "/detections") {
		return
	}
	id, _ := strconv.ParseInt(e.Subject, 10, 64)
	marked := e.CausedBy == transform.CausedByWriteback
	if was, again := g.marks[e.ID]; again {
		if was != marked {
			g.Fatalf("%s was delivered again: marked as ours is %v, and was %v", e.ID, marked, was)
		}
		return
	}
	ours, changed := g.isOurs(id, g.shown[id], g.show(id))
	g.marks[e.ID], g.shown[id] = marked, g.show(id)
	wrote := g.since[id]
	delete(g.since, id)
	delete(g.wrote, id)
	if marked && regexp.MustCompile(`"to":"[^"]*analyst`).Match(g.changes(e)) {
		g.Fatalf("%s is marked as ours, and shows what an analyst did: %s", e.ID, g.changes(e))
	}
	if g.late || g.crashes {
		return
	}
	edited := strings.Contains(wrote, "a")
	if !edited {
		ours = wrote != ""
	}
	if (changed || !edited) && ours != marked { // else an edit left no trace
		g.Fatalf("%s is marked as ours: %t, want %t (%s): %s", e.ID, marked, ours, wrote, g.changes(e))
	}
}

func (g *guarded) changes(e transform.Event) json.RawMessage {
	var data struct{ Changes json.RawMessage }
	g.must(json.Unmarshal(e.Data(), &data))
	return data.Changes
}

// edit lets an analyst change a detection, in a way that shows who did it unless every write of
// the bridge is known.
func (g *guarded) edit() {
	g.now = g.now.Add(time.Millisecond)
	g.edits++
	id := rapid.SampledFrom(g.ids).Draw(g.T, "edited")
	what := []string{"assignee", "title"}
	if !g.late && !g.crashes {
		what = append(what, "the bridge's assignee", "status")
	}
	field := rapid.SampledFrom(what).Draw(g.T, "field")
	g.must(g.standin.Update(func(d *standin.Detection) {
		switch field {
		case "assignee":
			d.Assignee = standin.Text(fmt.Sprintf("analyst-%d", g.edits))
		case "title":
			d.Title = fmt.Sprintf("by analyst-%d", g.edits)
		case "the bridge's assignee":
			d.Assignee = standin.Text(fmt.Sprintf("bridge-%d", g.written))
		case "status":
			d.Status, d.Resolution = rapid.SampledFrom([]standin.Text{"new", "in_progress", "acknowledged"}).Draw(g.T, "status"), ""
		}
	}, id))
	g.since[id] += "a"
}

// command gives the bridge a command.
func (g *guarded) command() {
	g.written++
	c := tickets.Command{TicketID: fmt.Sprintf("SEC-%d", rapid.IntRange(0, 2).Draw(g.T, "ticket")), Appliance: "hq"}
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
	for len(g.raises) > 0 {
		g.raise()
		if rapid.Bool().Draw(g.T, "polls in between") {
			g.poll()
		}
	}
	g.now = g.now.Add(time.Second)
	g.poll()
	for id, wrote := range g.since {
		g.Fatalf("what %s wrote to detection %d was not delivered", wrote, id)
	}
	for ticket, numbers := range g.orders {
		for i := 1; i < len(numbers); i++ {
			if numbers[i] < numbers[i-1] {
				g.Fatalf("ticket %s was written out of order: %v", ticket, numbers)
			}
		}
	}
}

// live lets random actions happen in random order, then finishes all pending work.
func (g *guarded) live(rt *rapid.T) {
	steps := []string{"edit", "command", "write", "write", "poll", "rewind"}
	if g.late {
		steps = append(steps, "raise", "a minute passes")
	}
	elapsed := 0
	for range rapid.IntRange(1, 15).Draw(rt, "steps") {
		switch rapid.SampledFrom(steps).Draw(rt, "step") {
		case "rewind":
			g.rewind()
		case "raise":
			g.raise()
		case "a minute passes":
			if elapsed++; elapsed < 6 {
				g.now = g.now.Add(time.Minute + time.Second)
			}
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

func TestWithoutACrashExactlyTheVersionsThatWeWroteAreMarked(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := newGuarded(rt, t.TempDir())
		g.live(rt)
	})
}

func TestNoAnalystEditIsMarkedAsAnOwnWrite(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := newGuarded(rt, t.TempDir())
		g.crashes = rapid.Bool().Draw(rt, "it crashes")
		g.late = !g.crashes || rapid.Bool().Draw(rt, "mod_time is raised late")
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
