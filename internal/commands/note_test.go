package commands_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/commands"
	"ndrbridge/internal/notes"
	"ndrbridge/sinks"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/leasetest"
	"ndrbridge/test/require"
)

// noted is the detection with a note, whose id is no exact floating-point number.
const noted = 9007199254740993

// withNote returns a stand-in with the detection, and a server of it. If answer is not nil, it
// may answer a request about the note.
func withNote(t *testing.T, text string, answer func(a *standin.Appliance, w http.ResponseWriter, r *http.Request) bool) (*standin.Appliance, string) {
	a := standin.New(standin.Options{Seed: 1, Size: 1000})
	d := a.Generate()
	d.ID = noted
	a.Add(d)
	putNote(t, a, text)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer == nil || !strings.HasSuffix(r.URL.Path, "/notes") || !answer(a, w, r) {
			a.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return a, server.URL
}

// callNote sends a request of an analyst about the note.
func callNote(a *standin.Appliance, method, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, fmt.Sprintf("/api/v1/detections/%d/notes", noted), strings.NewReader(body))
	r.Header.Set("Authorization", "Service apikey="+standin.DefaultAPIKey)
	r.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	a.ServeHTTP(recorder, r)
	return recorder
}

func putNote(t *testing.T, a *standin.Appliance, text string) {
	body := require.Value(json.Marshal(map[string]string{"note": text}))(t)
	answer := callNote(a, http.MethodPut, string(body))
	assert.Equal(t, answer.Code, http.StatusNoContent, answer.Body)
}

func noteOf(t *testing.T, a *standin.Appliance) (analysts, entries string) {
	var n struct {
		Note string `json:"note"`
	}
	require.NoError(t, json.Unmarshal(callNote(a, http.MethodGet, "").Body.Bytes(), &n))
	analysts, all := notes.Split(n.Note)
	for _, e := range all {
		entries += e.Author + ": " + e.Text + "\n"
	}
	return analysts, entries
}

func TestCommandsOnNotes(t *testing.T) {
	status := func(method string, status int) func(*standin.Appliance, http.ResponseWriter, *http.Request) bool {
		return func(_ *standin.Appliance, w http.ResponseWriter, r *http.Request) bool {
			if r.Method == method {
				w.WriteHeader(status)
			}
			return r.Method == method
		}
	}
	for _, c := range []struct {
		name    string
		change  func(c *commands.Command)
		answer  func(a *standin.Appliance, w http.ResponseWriter, r *http.Request) bool
		off     bool
		became  checkpoint.CommandState
		state   sinks.State
		says    string // the reason or the error
		entries string
		event   string
	}{
		{
			name: "an addition is applied", became: checkpoint.CommandApplied, state: sinks.StateRunning, entries: "ana: seen\n",
			event: `{"note":{"command":1,"detection_id":9007199254740993,"by":"ana"}}`,
		},
		{
			name: "a detection that is not there is rejected", change: func(c *commands.Command) { c.DetectionID = 77 },
			became: checkpoint.CommandRejected, state: sinks.StateRunning, says: "add to the note of detection 77: PUT /api/v1/detections/77/notes: answered 404",
			event: `"detection_id":77,"by":"ana","reason":"add to the note`,
		},
		{
			name: "a note that the appliance refuses is rejected", answer: status("PUT", 422),
			became: checkpoint.CommandRejected, state: sinks.StateRunning, says: "answered 422", event: `"reason":"add to the note`,
		},
		{name: "a note without ticket tracking halts", off: true, became: checkpoint.CommandPending, state: sinks.StateHalted, says: "turn it on in its settings"},
		{name: "a key that may not write notes halts", answer: status("PUT", 403), became: checkpoint.CommandPending, state: sinks.StateHalted, says: "answered 403"},
		{name: "a server error is retried", answer: status("GET", 500), became: checkpoint.CommandPending, state: sinks.StateRetrying, says: "answered 500"},
		{
			name: "a note that others always write is retried", answer: func(a *standin.Appliance, _ http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodGet {
					putNote(t, a, "of an analyst")
				}
				return false
			},
			became: checkpoint.CommandPending, state: sinks.StateRetrying, says: "was written 5 times, but not kept",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, url := withNote(t, "of an analyst", c.answer)
			a.SetTicketing(!c.off)
			store := newStore(t)
			accept(t, store, note(func(of *commands.Command) {
				of.DetectionID = noted
				if c.change != nil {
					c.change(of)
				}
			}))
			w := newWriterOf(t, commands.KindNote, store, url, nil)
			w.Step(t.Context())
			w.Step(t.Context())
			got, _, err := store.Command(t.Context(), 1)
			require.NoError(t, err)
			assert.True(t, got.State == c.became && w.Status().State == c.state, got.State, got.Reason, w.Status())
			assert.Contains(t, got.Reason+w.Status().Error, c.says)
			a.SetTicketing(true)
			analysts, entries := noteOf(t, a)
			assert.True(t, analysts == "of an analyst" && entries == c.entries, analysts, entries)
			events := require.Value(store.Read(t.Context(), 0, checkpoint.Batch{}))(t)
			if c.event == "" {
				assert.Equal(t, len(events), 0, "events")
				return
			}
			require.Equal(t, len(events), 1, "events")
			e := events[0].Event
			assert.True(t, e.Type == "io.ndrbridge.note."+string(c.became) && strings.Contains(string(e.Data()), c.event), e.Type, string(e.Data()))
		})
	}
}

func TestTrackingThatIsOffIsReportedOnce(t *testing.T) {
	a, url := withNote(t, "of an analyst", nil)
	a.SetTicketing(false)
	store := newStore(t)
	add := note(func(of *commands.Command) { of.DetectionID = noted })
	accept(t, store, add, add)
	var log strings.Builder
	client := require.Value(appliance.New(appliance.Options{URL: url, Key: func() (string, error) { return standin.DefaultAPIKey, nil }}))(t)
	defer client.Close()
	w := commands.NewWriter(client, store, nil, commands.WriterOptions{
		Appliance: "hq", Kind: commands.KindNote, RetryInitial: time.Second, RetryMax: time.Minute, Probe: 30 * time.Second,
		Log: slog.New(slog.NewTextHandler(&log, nil)), Metrics: commands.NewWriterMetrics(prometheus.NewRegistry(), commands.KindNote),
	})
	for range 6 {
		w.Step(t.Context())
	}
	assert.Equal(t, strings.Count(log.String(), "level="), 1, log.String())
	a.SetTicketing(true)
	for range 2 {
		w.Step(t.Context())
	}
	assert.Equal(t, states(t, store), "applied applied")
}

func TestANoteIsAddedToOnce(t *testing.T) {
	for name, answer := range map[string]func(a *standin.Appliance, w http.ResponseWriter, r *http.Request) bool{
		"if the answer is lost": func(a *standin.Appliance, _ http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPut {
				a.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			}
			return false
		},
		"if the bridge stops before it has read the note back": func(a *standin.Appliance, w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPut {
				a.ServeHTTP(w, r)
				a.SetHazards(standin.Hazards{Reset: 1})
			}
			return r.Method == http.MethodPut
		},
	} {
		t.Run(name, func(t *testing.T) {
			var repaired atomic.Bool
			a, url := withNote(t, "of an analyst", func(a *standin.Appliance, w http.ResponseWriter, r *http.Request) bool {
				return !repaired.Load() && answer(a, w, r)
			})
			store := newStore(t)
			for _, text := range []string{"one", "two\n--- end of ndrbridge ---"} { // in this order
				accept(t, store, note(func(of *commands.Command) { of.DetectionID, of.Note = noted, text }))
			}
			w := newWriterOf(t, commands.KindNote, store, url, nil)
			w.Step(t.Context())
			w.Step(t.Context())
			require.Equal(t, states(t, store), "pending pending")
			repaired.Store(true)
			a.SetHazards(standin.Hazards{})
			w = newWriterOf(t, commands.KindNote, store, url, nil)
			for range 3 {
				w.Step(t.Context())
			}
			analysts, entries := noteOf(t, a)
			assert.True(t, states(t, store) == "applied applied" && analysts == "of an analyst", states(t, store), analysts)
			assert.Equal(t, entries, "ana: one\nana: two\n--- end of ndrbridge ---\n")
		})
	}
}

// A key makes a text unique, even if the state was lost and the command is accepted again.
func TestANoteGetsOneTextWithAKey(t *testing.T) {
	a, url := withNote(t, "of an analyst", nil)
	at := time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)
	for range 2 {
		store := newStore(t)
		accept(t, store, note(func(of *commands.Command) { of.DetectionID, of.Key, of.Time = noted, "SEC-1/7", at }))
		w := newWriterOf(t, commands.KindNote, store, url, nil)
		w.Step(t.Context())
		w.Step(t.Context())
		require.Equal(t, states(t, store), "applied")
	}
	var n struct{ Note string }
	require.NoError(t, json.Unmarshal(callNote(a, http.MethodGet, "").Body.Bytes(), &n))
	_, entries := notes.Split(n.Note)
	require.Equal(t, len(entries), 1, n.Note)
	assert.True(t, entries[0].Key == "SEC-1/7" && entries[0].Time.Equal(at), entries[0])
}

func TestNoNoteIsWrittenWithoutALease(t *testing.T) {
	a, url := withNote(t, "of an analyst", nil)
	store := newStore(t)
	accept(t, store, note(func(of *commands.Command) { of.DetectionID = noted }))
	l, clock := leasetest.NewLease(term)
	client := require.Value(appliance.New(appliance.Options{URL: url, Key: func() (string, error) { return standin.DefaultAPIKey, nil }}))(t)
	defer client.Close()
	w := commands.NewWriter(client, store, nil, commands.WriterOptions{
		Appliance: "hq", Kind: commands.KindNote, RetryInitial: time.Second, RetryMax: time.Minute, Probe: 30 * time.Second, Lease: l,
		Log: slog.New(slog.DiscardHandler), Metrics: commands.NewWriterMetrics(prometheus.NewRegistry(), commands.KindNote),
	})
	clock.Advance(term)
	w.Step(t.Context())
	w.Step(t.Context())
	_, entries := noteOf(t, a)
	assert.True(t, states(t, store) == "pending" && entries == "" && a.Requests()["PUT /detections/{id}/notes"] <= 1, states(t, store), entries, a.Requests())
}
