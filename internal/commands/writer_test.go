package commands_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/commands"
	"ndrbridge/sinks"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// roundTripper sends requests.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// newWriter returns a writer to the appliance at url, over transport, or over the
// network if transport is nil.
func newWriter(t *testing.T, store *checkpoint.Store, url string, transport http.RoundTripper) *commands.Writer {
	return newWriterOf(t, commands.KindTicket, store, url, transport)
}

// newWriterOf is newWriter for a kind of commands.
func newWriterOf(t *testing.T, kind commands.Kind, store *checkpoint.Store, url string, transport http.RoundTripper) *commands.Writer {
	client, err := appliance.New(appliance.Options{
		URL: url, Key: func() (string, error) { return standin.DefaultAPIKey, nil }, Transport: transport,
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	ownWrites := require.Value(commands.LoadOwnWrites(t.Context(), store, "hq"))(t)
	return commands.NewWriter(client, store, ownWrites, commands.WriterOptions{
		Appliance: "hq", Kind: kind, RetryInitial: time.Second, RetryMax: time.Minute, Probe: 30 * time.Second,
		Log: slog.New(slog.DiscardHandler), Metrics: commands.NewWriterMetrics(prometheus.NewRegistry(), kind),
	})
}

func newStore(t *testing.T) *checkpoint.Store {
	store := require.Value(checkpoint.Open(filepath.Join(t.TempDir(), "state.db"), checkpoint.Options{}))(t)
	t.Cleanup(func() {
		assert.NoError(t, store.Close())
	})
	return store
}

// accept accepts commands.
func accept(t *testing.T, store *checkpoint.Store, all ...commands.Command) {
	for _, c := range all {
		body := require.Value(json.Marshal(c))(t)
		require.Value(store.Accept(t.Context(), []checkpoint.Command{{Appliance: "hq", Subject: c.TicketID, Body: body, Accepted: time.Now()}}))(t)
	}
}

// withTicket returns a stand-in with one detection that has the ticket SEC-1, and its id.
func withTicket(t *testing.T) (*standin.Appliance, int64) {
	a := standin.New(standin.Options{Seed: 1, Size: 1000})
	id := a.AddMany(1)[0].ID
	err := a.Update(func(d *standin.Detection) {
		d.TicketID, d.Status, d.Resolution = standin.TicketID{ID: "SEC-1"}, "new", ""
	}, id)
	require.NoError(t, err)
	return a, id
}

func TestResponsesOfTheAppliance(t *testing.T) {
	closed := commands.Command{TicketID: "SEC-1", Status: "closed", Resolution: "action_taken"}
	answer := func(status int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
		}
	}
	for _, c := range []struct {
		name    string
		command commands.Command
		patch   http.HandlerFunc // answers a PATCH; nil: the stand-in
		off     bool
		became  checkpoint.CommandState
		state   sinks.State
		says    string
		cause   string
		pause   time.Duration // at least
	}{
		{name: "an accepted write is applied", command: closed, became: checkpoint.CommandApplied, state: sinks.StateRunning},
		{name: "a ticket that nothing has is rejected", command: commands.Command{TicketID: "SEC-9", Status: "new"}, became: checkpoint.CommandRejected, state: sinks.StateRunning, says: "404"},
		{name: "a detection that is not there is rejected", command: commands.Command{TicketID: "SEC-1", DetectionID: 77}, became: checkpoint.CommandRejected, state: sinks.StateRunning, says: "404"},
		{name: "a wrong value is rejected", command: closed, patch: answer(400), became: checkpoint.CommandRejected, state: sinks.StateRunning, says: "400"},
		{name: "a 422 while tickets are tracked is about the command", command: closed, patch: answer(422), became: checkpoint.CommandRejected, state: sinks.StateRunning, says: "422"},
		{name: "disabled tracking halts, and the status says how to enable it", command: closed, off: true, became: checkpoint.CommandPending, state: sinks.StateHalted, says: "turn it on", cause: "ticket tracking is off", pause: 30 * time.Second},
		{name: "a refused key halts", command: closed, patch: answer(401), became: checkpoint.CommandPending, state: sinks.StateHalted, says: "401", cause: "key rejected (401)", pause: 30 * time.Second},
		{name: "a missing privilege halts", command: closed, patch: answer(403), became: checkpoint.CommandPending, state: sinks.StateHalted, says: "403", cause: "key rejected (403)", pause: 30 * time.Second},
		{name: "a redirect halts", command: closed, patch: answer(302, "Location", "/login"), became: checkpoint.CommandPending, state: sinks.StateHalted, says: "302", cause: "redirected elsewhere (302)", pause: 30 * time.Second},
		{name: "a method that is not allowed halts", command: closed, patch: answer(405), became: checkpoint.CommandPending, state: sinks.StateHalted, says: "405", cause: "rejected by receiver (405)", pause: 30 * time.Second},
		{name: "a 429 is retried after Retry-After", command: closed, patch: answer(429, "Retry-After", "17"), became: checkpoint.CommandPending, state: sinks.StateRetrying, says: "429", cause: "asked to wait (429)", pause: 17 * time.Second},
		{name: "a 503 is retried after Retry-After", command: closed, patch: answer(503, "Retry-After", "9"), became: checkpoint.CommandPending, state: sinks.StateRetrying, says: "503", cause: "receiver not available (503)", pause: 9 * time.Second},
		{name: "a server error is retried and delays nothing else", command: closed, patch: answer(500), became: checkpoint.CommandPending, state: sinks.StateRetrying, says: "500", cause: "receiver not available (500)"},
		{name: "a broken connection is retried", command: closed, patch: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, became: checkpoint.CommandPending, state: sinks.StateRetrying, says: "EOF", cause: "connection closed", pause: time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, _ := withTicket(t)
			a.SetTicketing(!c.off)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPatch && c.patch != nil {
					c.patch(w, r)
					return
				}
				a.ServeHTTP(w, r)
			}))
			defer server.Close()
			store := newStore(t)
			w := newWriter(t, store, server.URL, nil)
			accept(t, store, c.command)
			w.Step(t.Context())
			pause := w.Step(t.Context())
			got, _, err := store.Command(t.Context(), 1)
			require.NoError(t, err)
			status := w.Status()
			assert.True(t, got.State == c.became && status.State == c.state && pause >= c.pause, got.State, got.Reason, status.State, status.Error, pause)
			assert.Equal(t, status.Cause, c.cause, "cause")
			text := got.Reason + status.Error
			assert.True(t, strings.Contains(text, c.says) && (c.says != "" || text == ""), "it says", text)
		})
	}
}

// run runs a writer until the test is over.
func run(t *testing.T, w *commands.Writer) {
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	late, cut := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, cut) })
	running.Go(func() { w.Run(ctx, late) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
}

// inProcess serves a stand-in without a network. A PATCH whose body has the text is
// answered with failing unless that is 0.
func inProcess(a *standin.Appliance, text string, failing *atomic.Int32) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		recorder := httptest.NewRecorder()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if status := int(failing.Load()); status != 0 && r.Method == http.MethodPatch && strings.Contains(string(body), text) {
			recorder.WriteHeader(status)
		} else {
			a.ServeHTTP(recorder, r)
		}
		return recorder.Result(), nil
	})
}

// states returns the states of the commands in a store.
func states(t *testing.T, store *checkpoint.Store) string {
	all := require.Value(store.Commands(t.Context(), checkpoint.CommandFilter{}, 0, 1000))(t)
	var each []string
	for _, c := range all {
		each = append(each, string(c.State))
	}
	return strings.Join(each, " ")
}

func TestARetriedCommandDelaysOnlyItsOwnTicket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, id := withTicket(t)
		other := a.AddMany(1)[0].ID
		var failing atomic.Int32
		failing.Store(http.StatusInternalServerError)
		store := newStore(t)
		accept(t, store,
			commands.Command{TicketID: "SEC-1", Status: "acknowledged"},
			commands.Command{TicketID: "SEC-1", Status: "closed"},
			commands.Command{TicketID: "SEC-2", DetectionID: other, Status: "in_progress"},
			commands.Command{TicketID: "SEC-3", DetectionID: id},
		)
		run(t, newWriter(t, store, "http://sensor.example", inProcess(a, "SEC-1", &failing)))
		time.Sleep(10 * time.Second)
		require.Equal(t, states(t, store), "pending pending applied applied", "while one ticket fails")
		accept(t, store, commands.Command{TicketID: "SEC-1", DetectionID: id})
		failing.Store(0)
		time.Sleep(2 * time.Minute)
		if got := states(t, store); got != "rejected rejected applied applied applied" {
			t.Fatalf("at the end: %s", got) // nothing had SEC-1 any more when it was its turn
		}
	})
}

func TestTicketsAreWrittenOnceTrackingIsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := withTicket(t)
		a.SetTicketing(false)
		store := newStore(t)
		w := newWriter(t, store, "http://sensor.example", inProcess(a, "", new(atomic.Int32)))
		run(t, w)
		synctest.Wait()
		s := w.Status()
		require.True(t, s.State == sinks.StateHalted && strings.Contains(s.Error, "turn it on"), "before there is a command", s)
		accept(t, store, commands.Command{TicketID: "SEC-1", Status: "acknowledged"})
		time.Sleep(5 * time.Minute)
		require.Equal(t, states(t, store), "pending", "while tracking is off")
		a.SetTicketing(true)
		time.Sleep(time.Minute)
		if got := states(t, store); got != "applied" || w.Status().State != sinks.StateRunning {
			t.Fatalf("once it is on: %s, %+v", got, w.Status())
		}
	})
}

func TestACommandThatFailsWhileOthersSucceedIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, id := withTicket(t)
		var failing atomic.Int32
		failing.Store(http.StatusInternalServerError)
		store := newStore(t)
		run(t, newWriter(t, store, "http://sensor.example", inProcess(a, "poison", &failing)))
		poison := "poison"
		accept(t, store, commands.Command{TicketID: "SEC-7", Assignee: &poison})
		time.Sleep(time.Hour)
		require.Equal(t, states(t, store), "pending", "while no other is there")
		for range 60 {
			accept(t, store, commands.Command{TicketID: "SEC-1", DetectionID: id})
			time.Sleep(time.Minute)
		}
		c, _, err := store.Command(t.Context(), 1)
		require.True(t, err == nil && c.State == checkpoint.CommandRejected && strings.Contains(c.Reason, "while other commands succeeded"), c.State, c.Reason, err)
		failing.Store(0)
		require.NoError(t, a.Update(func(d *standin.Detection) { d.TicketID = standin.TicketID{ID: "SEC-7"} }, id))
		require.NoError(t, store.RetryCommand(t.Context(), 1))
		time.Sleep(time.Minute)
		c, _, err = store.Command(t.Context(), 1)
		require.True(t, err == nil && c.State == checkpoint.CommandApplied, "tried again", c.State, c.Reason, err)
	})
}

func TestOtherTicketsContinueHoweverManyCommandsWaitForOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, id := withTicket(t)
		var failing atomic.Int32
		failing.Store(http.StatusInternalServerError)
		store := newStore(t)
		const behind = 10_500
		poison := make([]checkpoint.Command, behind)
		for i := range poison {
			poison[i] = checkpoint.Command{Appliance: "hq", Subject: "SEC-7", Body: []byte(`{"ticket_id":"SEC-7","assignee":"poison"}`), Accepted: time.Now()}
		}
		require.Value(store.Accept(t.Context(), poison))(t)
		run(t, newWriter(t, store, "http://sensor.example", inProcess(a, "poison", &failing)))
		accept(t, store, commands.Command{TicketID: "SEC-1", DetectionID: id})
		time.Sleep(time.Minute)
		c, _, err := store.Command(t.Context(), behind+1)
		assert.True(t, err == nil && c.State == checkpoint.CommandApplied, "a command of another ticket", c.State, err)
		stats := require.Value(store.Stats(t.Context()))(t)
		assert.Equal(t, stats.Commands.Pending, behind, "commands wait")
	})
}

func TestALinkThatWasNotedIsNotRepeated(t *testing.T) {
	for _, failing := range []string{"/api/v1/detections/tickets", "/api/v1/detections/search"} {
		t.Run(failing, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := standin.New(standin.Options{Seed: 1, Size: 1000})
				id := a.AddMany(1)[0].ID
				fails, links := true, 0
				serve := roundTripper(func(r *http.Request) (*http.Response, error) {
					recorder := httptest.NewRecorder()
					if fails && r.URL.Path == failing {
						recorder.WriteHeader(http.StatusServiceUnavailable)
						return recorder.Result(), nil
					}
					if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/"+strconv.FormatInt(id, 10)) {
						links++
					}
					a.ServeHTTP(recorder, r)
					return recorder.Result(), nil
				})
				store := newStore(t)
				accept(t, store, commands.Command{TicketID: "SEC-1", DetectionID: id, Status: "in_progress"})
				for range 3 { // bridges that stop before the ticket's detections are changed
					w := newWriter(t, store, "http://sensor.example", serve)
					for range 3 {
						time.Sleep(w.Step(t.Context()))
					}
					got := states(t, store)
					require.True(t, got == "pending" && links == 1, "the command", got, "and the ticket was linked", links, "times")
				}
				fails = false
				run(t, newWriter(t, store, "http://sensor.example", serve))
				time.Sleep(time.Minute)
				got := states(t, store)
				assert.True(t, got == "applied" && links == 1, "the command", got, "and the ticket was linked", links, "times")
			})
		})
	}
}
