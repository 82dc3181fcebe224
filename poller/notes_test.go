package poller_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/notes"
	"ndrbridge/poller"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// notesWorld is a lifecycleWorld whose notes are read.
type notesWorld struct {
	*lifecycleWorld
	notes *poller.Notes
}

func newNotesWorld(t *testing.T) *notesWorld {
	w := &notesWorld{lifecycleWorld: newLifecycleWorld(t, t.TempDir())}
	w.reopen()
	return w
}

// reopen continues from the committed state, like a new process.
func (w *notesWorld) reopen() {
	w.restart()
	w.notes = poller.NewNotes(w.client, steps{w.lifecycleWorld}, w.options.StreamOptions, w.options.ForgetAfter)
}

func (w *notesWorld) put(id int64, text string) {
	body, err := json.Marshal(map[string]string{"note": text})
	require.NoError(w, err)
	w.call("PUT", fmt.Sprintf("/detections/%d/notes", id), string(body))
}

// round polls until a round has ended, or a poll fails.
func (w *notesWorld) round() error {
	for {
		next, err := w.notes.Poll(context.Background())
		if err != nil || next == poller.Idle {
			return err
		}
	}
}

type notedEvent struct {
	Detection struct {
		ID    int64  `json:"id"`
		Title string `json:"title"`
	} `json:"detection"`
	Note struct {
		Text   string `json:"text"`
		Author string `json:"author"`
		Time   int64  `json:"time"`
	} `json:"note"`
}

// of returns the journalled events with an action.
func (w *lifecycleWorld) of(action string) (events []transform.Event) {
	for _, e := range w.journal() {
		if e.Action() == action {
			events = append(events, e)
		}
	}
	return events
}

func (w *notesWorld) texts() (texts []string) {
	for _, e := range w.of("noted") {
		var data notedEvent
		require.NoError(w, json.Unmarshal(e.Data(), &data))
		texts = append(texts, e.Subject+" "+data.Note.Text)
	}
	return texts
}

// big gives a detection of the stand-in an id above 2^53.
func (w *lifecycleWorld) big(id int64, status standin.Text) {
	w.pass(time.Second)
	d := w.standin.Generate()
	d.ID, d.Status, d.Resolution = id, status, standin.Null
	w.standin.Add(d)
}

func TestWhatBecomesAnEventOfANote(t *testing.T) {
	const id = 9007199254740993
	s := func(text string) string { return strconv.Itoa(id) + " " + text }
	for name, c := range map[string]struct {
		change func(w *notesWorld)
		want   []string
	}{
		"none without a note":  {func(*notesWorld) {}, nil},
		"each text once":       {func(w *notesWorld) { w.put(id, "seen"); w.rounds(2) }, []string{s("seen")}},
		"a changed text again": {func(w *notesWorld) { w.put(id, "seen"); w.rounds(1); w.put(id, "false alarm") }, []string{s("seen"), s("false alarm")}},
		"a text that returns":  {func(w *notesWorld) { w.put(id, "a"); w.rounds(1); w.put(id, "b"); w.rounds(1); w.put(id, "a") }, []string{s("a"), s("b"), s("a")}},
		"none when a note is deleted": {func(w *notesWorld) {
			w.put(id, "a")
			w.rounds(1)
			w.call("DELETE", fmt.Sprintf("/detections/%d/notes", id), "")
		}, []string{s("a")}},
		"none of an empty text":              {func(w *notesWorld) { w.put(id, "") }, nil},
		"those of one that was just closed":  {func(w *notesWorld) { w.update("closed", id); w.read(); w.put(id, "a") }, []string{s("a")}},
		"none of one that was closed before": {func(w *notesWorld) { w.update("closed", id); w.read(); w.pass(25 * time.Hour); w.put(id, "a") }, nil},
		"none again after a new version":     {func(w *notesWorld) { w.put(id, "a"); w.rounds(1); w.update("new", id); w.read(); w.rounds(2) }, []string{s("a")}},
		"none of what the bridge writes": {func(w *notesWorld) {
			w.put(id, "a")
			w.rounds(1)
			for _, key := range []string{"1", "2"} {
				w.put(id, notes.Merge("a", notes.Entry{Key: key, Text: "from the ticket"}))
				w.rounds(1)
			}
			w.put(id, notes.Merge("", notes.Entry{Key: "3"}))
		}, []string{s("a")}},
		"the text around what the bridge writes": {func(w *notesWorld) {
			w.put(id, notes.Merge("a", notes.Entry{Key: "1", Text: "from the ticket"})+"\r\nb")
		}, []string{s("a\r\nb")}},
		"what the bridge wrote if somebody edits it": {func(w *notesWorld) {
			w.put(id, strings.Replace(notes.Merge("a", notes.Entry{Key: "1", Text: "late"}), "> late", "> too late", 1))
		}, []string{s(strings.Replace(notes.Merge("a", notes.Entry{Key: "1", Text: "late"}), "> late", "> too late", 1))}},
		"characters as they are written": {func(w *notesWorld) { w.put(id, "<b>&\u2028é") }, []string{s("<b>&\u2028é")}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newNotesWorld(t)
			w.big(id, standin.Null)
			w.read()
			c.change(w)
			w.rounds(1)
			assert.EqualSlices(t, w.texts(), c.want)
			seen := make(map[string]bool)
			for _, e := range w.of("noted") {
				assert.True(t, !seen[e.ID] && e.PartitionKey == strconv.Itoa(id) && e.Source == "ndrbridge://hq/detections", e.ID, e.PartitionKey)
				seen[e.ID] = true
				var data notedEvent
				require.NoError(t, json.Unmarshal(e.Data(), &data))
				assert.True(t, data.Detection.ID == id && data.Detection.Title != "" && data.Note.Author == "api" && data.Note.Time > 0, data)
			}
		})
	}
}

// rounds ends some rounds, each in a new process.
func (w *notesWorld) rounds(n int) {
	for range n {
		w.pass(time.Minute)
		w.reopen()
		require.NoError(w, w.round())
	}
}

func TestALongNoteIsCutAndItsChangeIsNoticed(t *testing.T) {
	w := newNotesWorld(t)
	id := w.add("a")
	w.read()
	text := strings.Repeat("é", 50<<10)
	w.serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == fmt.Sprintf("/api/v1/detections/%d/notes", id) {
			rw.Header().Set("Date", w.time().UTC().Format(http.TimeFormat))
			fmt.Fprintf(rw, `{"author":"ana","note":%q,"update_time":1750000000000}`, text)
			return
		}
		w.standin.ServeHTTP(rw, r)
	}))
	w.rounds(2)
	text += "." // what is kept of it is the same
	w.rounds(2)
	texts := w.texts()
	require.Equal(t, len(texts), 2, "events")
	for _, text := range texts {
		assert.True(t, len(text) < 65<<10 && strings.Contains(text, "… (cut: 10240"), len(text))
	}
}

func TestARoundAsksTheNewestFirstAndContinues(t *testing.T) {
	w := newNotesWorld(t)
	var ids []int64
	for range 230 { // more than two polls
		ids = append(ids, w.add("a"))
	}
	w.read()
	var asked []string
	w.standin.OnRequest(func(r *http.Request) {
		if rest, ok := strings.CutSuffix(r.URL.Path, "/notes"); ok && r.Method == "GET" {
			asked = append(asked, rest[strings.LastIndexByte(rest, '/')+1:])
		}
	})
	next, err := w.notes.Poll(context.Background())
	require.True(t, err == nil && next == poller.Now && len(asked) == 100, next, err, len(asked))
	p, ok := w.notes.Progress()
	assert.True(t, ok && p.Behind > 0, "in a round the progress is", p)
	w.reopen()
	require.NoError(t, w.round())
	var want []string
	for _, id := range slices.Backward(ids) {
		want = append(want, strconv.FormatInt(id, 10))
	}
	assert.EqualSlices(t, asked, want)
	p, ok = w.notes.Progress()
	assert.True(t, ok && p.Behind == 0, "after it the progress is", p)
}

// crashes does act with the state failing at its first use, then at its second, and so on, until
// nothing fails. reopen continues after each, like a new process.
func (w *lifecycleWorld) crashes(act func() error, reopen func()) {
	errCrash := errors.New("killed")
	for at := 1; ; at++ {
		left := at
		w.step = func() error {
			if left--; left <= 0 {
				return errCrash
			}
			return nil
		}
		err := act()
		w.step = func() error { return nil }
		reopen()
		if err == nil {
			return
		}
		require.ErrorIs(w, err, errCrash)
	}
}

func TestANoteIsOneEventWhateverCrashes(t *testing.T) {
	w := newNotesWorld(t)
	var want []string
	for i := range 5 {
		id := w.add("a")
		w.put(id, fmt.Sprint("note ", i))
		want = append(want, fmt.Sprintf("%d note %d", id, i))
	}
	w.read()
	w.crashes(w.round, w.reopen)
	require.NoError(t, w.round())
	texts := w.texts()
	slices.Sort(texts)
	slices.Sort(want)
	assert.EqualSlices(t, texts, want)
}

// once is a source whose second poll ends the Poller.
type optionalSource = poller.Source

type once struct {
	optionalSource
	polls int
	end   context.CancelFunc
}

func (o *once) Poll(ctx context.Context) (poller.Next, error) {
	if o.polls++; o.polls > 1 {
		o.end()
		return poller.Idle, nil
	}
	return o.optionalSource.Poll(ctx)
}

// pollOptional polls an optional source once by a Poller, and returns its status then.
func pollOptional(t *testing.T, source poller.Source, log io.Writer) poller.Status {
	ctx, end := context.WithCancel(t.Context())
	p := poller.New(&once{optionalSource: source, end: end}, poller.Options{
		Interval: time.Millisecond, RetryInitial: time.Millisecond, RetryMax: time.Millisecond, AuthRetry: time.Millisecond, Optional: true,
		Log: slog.New(slog.NewTextHandler(log, nil)), Metrics: poller.NewMetrics(prometheus.NewRegistry()),
	})
	p.PollNow() // ends the wait after the first poll
	p.Run(ctx)
	return p.Status()
}

func TestNotesAreOffIfTheApplianceSaysSo(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		off    bool
		log    string
	}{
		"the key may not read them":    {403, true, "GET /api/v1/detections/"},
		"ticket tracking is off":       {422, true, "turn external ticket tracking on there, or set notes.in to false"},
		"there is no note":             {404, false, ""},
		"the appliance is overwhelmed": {429, false, "poll failed"},
		"the appliance fails":          {500, false, "poll failed"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newNotesWorld(t)
			w.add("a")
			w.read()
			w.serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/notes") {
					rw.WriteHeader(c.status)
					io.WriteString(rw, `{"detail":"no"}`)
					return
				}
				w.standin.ServeHTTP(rw, r)
			}))
			log := new(strings.Builder)
			status := pollOptional(t, w.notes, log)
			assert.Equal(t, status.Off, c.off, "status", status)
			assert.Contains(t, log.String(), c.log)
			if c.off {
				assert.Equal(t, strings.Count(log.String(), "level=WARN"), 1, log)
			}
		})
	}
}

func TestANoteThatCannotBeReadDoesNotStopTheRound(t *testing.T) {
	for name, body := range map[string]string{
		"no object":  `[]`,
		"no JSON":    `{"note":`,
		"too large":  `{"note":"` + strings.Repeat("x", 17<<20) + `"}`,
		"many notes": `{"note":"a"}{"note":"b"}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newNotesWorld(t)
			good := w.add("a")
			bad := w.add("a")
			w.put(good, "fine")
			w.read()
			w.serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, fmt.Sprintf("/%d/notes", bad)) {
					rw.Header().Set("Date", w.time().UTC().Format(http.TimeFormat))
					io.WriteString(rw, body)
					return
				}
				w.standin.ServeHTTP(rw, r)
			}))
			for range 4 {
				require.True(t, w.round() != nil, "a poll succeeds too early")
			}
			require.NoError(t, w.round())
			assert.EqualSlices(t, w.texts(), []string{fmt.Sprintf("%d fine", good)})
			dead, err := w.store.Dead(context.Background(), checkpoint.SourceOwner(w.notes.Source()), "", 10)
			require.True(t, err == nil && len(dead) == 1 && dead[0].Key == fmt.Sprintf("%d-note", bad), dead, err)
		})
	}
}
