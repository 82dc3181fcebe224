package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
	"ndrbridge/test/assert"
	"ndrbridge/test/presettest"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

// ticketPreset is a preset of a service that opens a ticket for each detection: it
// looks for one, opens one if there is none, and then comments on the remembered one.
type ticketPreset struct{}

func (p ticketPreset) preset() *webhook.Preset {
	return &webhook.Preset{Key: webhook.DetectionKey, Converse: p.converse}
}

func (ticketPreset) converse(ctx context.Context, c *webhook.Conversation, events []transform.Event) (int, error) {
	e := events[0]
	ask := func(format string, args ...any) (string, error) {
		a, err := c.Do(ctx, webhook.Request{Body: fmt.Appendf(nil, format, args...)})
		if err == nil {
			err = a.Refusal()
		}
		return string(a.Body), err
	}
	if known := c.Known(0); known != nil {
		_, err := ask("comment %s on %s", e.ID, known)
		return 1, err
	}
	answer, err := ask("find %s", e.Subject)
	if err == nil && answer == "none" {
		answer, err = ask("open %s", e.Subject)
	}
	if ticket, found := strings.CutPrefix(answer, "ticket "); found && err == nil {
		err = c.Remember(ctx, map[string][]byte{webhook.DetectionKey(e): []byte(ticket)})
	}
	return 1, err
}

// ticketService is the service of ticketPreset: it has at most one ticket for each
// detection that is looked up first.
type ticketService struct {
	tickets  map[string]string
	received []string
	down     string // what fails
}

func startOffice(t *testing.T) (*ticketService, string) {
	o := &ticketService{tickets: map[string]string{}}
	server := serveLines(t, func(w http.ResponseWriter, _ *http.Request, words []string) {
		o.received = append(o.received, strings.Join(words, " "))
		switch {
		case words[0] == o.down:
			w.WriteHeader(http.StatusInternalServerError)
		case words[0] == "comment":
		case words[0] == "open":
			o.tickets[words[1]] = fmt.Sprint("T", len(o.tickets)+1)
			fallthrough
		case o.tickets[words[1]] != "":
			fmt.Fprint(w, "ticket ", o.tickets[words[1]])
		default:
			fmt.Fprint(w, "none")
		}
	})
	return o, server.URL
}

// remembering has a sink of ticketPreset with a memory that may fail.
func remembering(t *testing.T, preset *webhook.Preset) (*ticketService, *presettest.FaultyStore, *webhook.Memory, *webhook.Sink) {
	t.Helper()
	o, url := startOffice(t)
	memory := presettest.Memory(t)
	return o, presettest.Faulty(memory), memory, open(t, webhook.Options{URL: url, Preset: preset, Memory: memory})
}

var errFull = errors.New("the disk is full")

func TestAPresetRemembersWhatItCreated(t *testing.T) {
	first, second := presettest.Version(t, 7, 0, "new"), presettest.Version(t, 7, 1, "new")
	ask := func(t *testing.T, o *ticketService, want ...string) {
		t.Helper()
		assert.EqualSlices(t, o.received, want, "asked")
	}
	t.Run("the next version finds it, in the same Send too", func(t *testing.T) {
		o, _, _, sink := remembering(t, ticketPreset{}.preset())
		require.NoError(t, sink.Send(t.Context(), []transform.Event{first, second}))
		ask(t, o, "find 7", "open 7", "comment "+second.ID+" on T1")
	})
	t.Run("an event is delivered only when it is remembered", func(t *testing.T) {
		o, m, _, sink := remembering(t, ticketPreset{}.preset())
		m.Remember = func() error { return errFull }
		err := sink.Send(t.Context(), []transform.Event{first, second})
		each, ok := errors.AsType[failure.EventErrors](err)
		assert.True(t, (!ok || each[0] != nil) && err != nil, "it counts as delivered", err)
		sinktest.ExpectFailure(t, err, failure.Transient, "the disk is full")
		m.Remember = nil
		require.NoError(t, sink.Send(t.Context(), []transform.Event{first}))
		ask(t, o, "find 7", "open 7", "find 7") // the ticket that was opened is found
		assert.Equal(t, len(o.tickets), 1, "tickets")
	})
	t.Run("nothing is sent by a memory that cannot be read", func(t *testing.T) {
		o, m, _, sink := remembering(t, ticketPreset{}.preset())
		m.Recall = func() error { return errors.New("a page cannot be read") }
		err := sink.Send(t.Context(), []transform.Event{first, second})
		sinktest.ExpectFailure(t, err, failure.Transient, "a page cannot be read")
		ask(t, o)
	})
	t.Run("what an answer shows is remembered though the next request fails", func(t *testing.T) {
		o, _, memory, sink := remembering(t, ticketPreset{}.preset())
		o.down = "comment"
		assert.Error(t, sink.Send(t.Context(), []transform.Event{first, second}), "no error")
		known := require.Value(memory.Store.RecallSink(t.Context(), memory.Sink, []string{webhook.DetectionKey(first)}))(t)
		assert.Equal(t, string(known[0]), "T1")
	})
	t.Run("a Send that is cancelled behind the answer remembers all the same", func(t *testing.T) {
		_, m, memory, sink := remembering(t, ticketPreset{}.preset())
		ctx, cancel := context.WithCancel(t.Context())
		m.Remember = func() error {
			cancel()
			return nil
		}
		_ = sink.Send(ctx, []transform.Event{first})
		known := require.Value(memory.Store.RecallSink(t.Context(), memory.Sink, []string{webhook.DetectionKey(first)}))(t)
		assert.Equal(t, string(known[0]), "T1")
	})
	t.Run("what is older than it is kept is forgotten", func(t *testing.T) {
		_, _, memory, sink := remembering(t, ticketPreset{}.preset())
		now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		memory.Now = func() time.Time { return now }
		send := func(id int) {
			t.Helper()
			require.NoError(t, sink.Send(t.Context(), []transform.Event{presettest.Version(t, id, 0, "new")}))
		}
		send(7)
		now = now.Add(memory.Keep + time.Millisecond)
		send(8)
		known, err := memory.Store.RecallSink(t.Context(), memory.Sink, []string{webhook.DetectionKey(first)})
		assert.True(t, err == nil && known[0] == nil, known, err)
	})
	t.Run("later versions keep what is remembered, though they change nothing of it", func(t *testing.T) {
		o, _, memory, sink := remembering(t, ticketPreset{}.preset())
		now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		memory.Now = func() time.Time { return now }
		send := func(id, minute int) {
			t.Helper()
			require.NoError(t, sink.Send(t.Context(), []transform.Event{presettest.Version(t, id, minute, "new")}))
		}
		send(7, 0)
		for i := range 4 {
			now = now.Add(memory.Keep * 2 / 3)
			send(7, i+1)
			send(100+i, 0) // which forgets what is old
		}
		n := len(o.tickets)
		assert.True(t, n == 5 && !slices.Contains(o.received[2:], "find 7"), n, "tickets are open, want 5; asked", o.received)
	})
	t.Run("without a memory it begins over each time", func(t *testing.T) {
		o, url := startOffice(t)
		require.NoError(t, open(t, webhook.Options{URL: url, Preset: ticketPreset{}.preset()}).Send(t.Context(), []transform.Event{first, second}))
		ask(t, o, "find 7", "open 7", "find 7")
	})
	t.Run("a failure of the preset has its class and the target", func(t *testing.T) {
		o, _, _, sink := remembering(t, &webhook.Preset{Converse: func(context.Context, *webhook.Conversation, []transform.Event) (int, error) {
			return 1, failure.Errorf(failure.Rejected, "no such project")
		}})
		err := sink.Send(t.Context(), []transform.Event{first})
		sinktest.ExpectFailure(t, err, failure.Rejected, "POST to http://", "no such project")
		ask(t, o)
	})
	t.Run("other events have no key", func(t *testing.T) {
		for _, kind := range presettest.Events(t) {
			got := webhook.DetectionKey(kind.Event)
			assert.Equal(t, got != "", kind.Event.Stream() == transform.StreamDetections, kind.Name, got)
		}
	})
}
