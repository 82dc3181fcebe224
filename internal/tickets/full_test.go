package tickets_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/tickets"
	"ndrbridge/poller"
	"ndrbridge/sinks"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// bridged is an appliance whose detections are polled into a store, beside a writer of
// its tickets.
type bridged struct {
	*testing.T
	standin *standin.Appliance
	store   *checkpoint.Store
	source  *poller.Detections
	writer  *tickets.Writer
}

// newBridged makes a bridge with one sink, which takes nothing by itself, and a journal
// that is full with one event. id is a detection with the ticket SEC-1.
func newBridged(t *testing.T, transport func(http.RoundTripper) http.RoundTripper) (b *bridged, id int64) {
	b = &bridged{T: t}
	b.standin, id = withTicket(t)
	var err error
	b.store, err = checkpoint.Open(filepath.Join(t.TempDir(), "state.db"), checkpoint.Options{Limits: checkpoint.Limits{MaxBytes: 1}})
	require.NoError(t, err)
	t.Cleanup(func() { b.store.Close() })
	require.NoError(t, b.store.Configure(t.Context(), map[string]checkpoint.Start{"lake": {}}))
	client, err := appliance.New(appliance.Options{
		URL: "http://sensor.example", Key: func() (string, error) { return standin.DefaultAPIKey, nil },
		Transport: transport(inProcess(b.standin, "", new(atomic.Int32))),
	})
	require.NoError(t, err)
	ownWrites, err := tickets.LoadOwnWrites(t.Context(), b.store, "hq")
	require.NoError(t, err)
	log, registry := slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	b.source = poller.NewDetections(client, b.store, poller.DetectionsOptions{
		StreamOptions: poller.StreamOptions{
			Appliance: "hq", URL: "http://sensor.example", Start: func(time.Time) time.Time { return time.Time{} }, PageSize: 10, Now: time.Now, Log: log, Metrics: poller.NewMetrics(registry),
		},
		Overlap: time.Minute, ForgetAfter: 90 * 24 * time.Hour, OwnWrites: ownWrites,
	})
	b.writer = tickets.NewWriter(client, b.store, ownWrites, tickets.WriterOptions{
		Appliance: "hq", RetryInitial: time.Second, RetryMax: time.Minute, Probe: 30 * time.Second,
		Log: log, Metrics: tickets.NewWriterMetrics(registry),
	})
	return b, id
}

func direct(t http.RoundTripper) http.RoundTripper { return t }

func (b *bridged) must(err error) {
	b.Helper()
	require.NoError(b, err)
}

// poll polls in the background until the test is over, and returns how each poll ended.
func (b *bridged) poll() <-chan error {
	ctx, stop := context.WithCancel(b.Context())
	ended, done := make(chan error, 100), make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_, err := b.source.Poll(ctx)
			ended <- err
			time.Sleep(10 * time.Second)
		}
	}()
	b.Cleanup(func() {
		stop()
		<-done
	})
	return ended
}

// drain lets the sink acknowledge everything in the journal.
func (b *bridged) drain() {
	b.Helper()
	stats, err := b.store.Stats(b.Context())
	b.must(err)
	cursor, err := b.store.Cursor(b.Context(), "lake")
	b.must(err)
	b.must(b.store.CommitDelivery(b.Context(), checkpoint.Delivery{Sink: "lake", Expect: cursor, Cursor: stats.Last}))
}

func TestTicketsAreWrittenWhilePollingWaitsForAFullJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, id := newBridged(t, direct)
		_, err := b.source.Poll(t.Context())
		b.must(err) // the journal is full now
		b.standin.AddMany(3)
		time.Sleep(time.Second)
		ended := b.poll()
		time.Sleep(time.Minute)
		run(t, b.writer)
		accept(t, b.store, tickets.Command{TicketID: "SEC-1", Status: "acknowledged"}, tickets.Command{TicketID: "SEC-1", DetectionID: id, Status: "closed"})
		time.Sleep(time.Minute)
		if got := states(t, b.store); got != "applied applied" {
			t.Errorf("while the journal is full: %s, the writer is %+v", got, b.writer.Status())
		}
		select {
		case err := <-ended:
			t.Errorf("a poll ended in a full journal: %v", err)
		default:
		}
		for range 2 { // the page that waited, then what the tickets made
			b.drain()
			time.Sleep(time.Minute)
		}
		b.must(<-ended)
		stats, err := b.store.Stats(t.Context())
		b.must(err)
		// One detection, two answers, then three detections and what the tickets made of the one.
		if stats.Last != 7 {
			t.Errorf("the journal came to %d events, want 7", stats.Last)
		}
	})
}

func TestTicketsAreWrittenAfterAFloodOfRefusedMessagesInAFullJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := newBridged(t, direct)
		_, err := b.source.Poll(t.Context())
		b.must(err) // the journal is full now
		own := checkpoint.Source{Appliance: transform.Bridge, Stream: transform.StreamEvents}
		var position []byte
		for i := 0; ; i++ {
			message := transform.RefusedMessage{Message: fmt.Sprintf("stream TICKETS, message %d", i), Reason: "a message is not a command", Sent: time.Now()}
			event, err := transform.Encoder{Appliance: transform.Bridge}.MessageRefused(message, time.Now())
			b.must(err)
			next := fmt.Append(nil, i)
			err = b.store.Commit(t.Context(), checkpoint.Commit{
				Source: own, Expect: position, Position: next, Events: []transform.Event{event}, NoWait: true,
			})
			if errors.Is(err, checkpoint.ErrFull) {
				break
			}
			b.must(err)
			position = next
		}
		run(t, b.writer)
		accept(t, b.store, tickets.Command{TicketID: "SEC-1", Status: "acknowledged"}, tickets.Command{TicketID: "SEC-1", Status: "closed"})
		time.Sleep(time.Minute)
		if got := states(t, b.store); got != "applied applied" {
			t.Errorf("the commands are %s, the writer is %+v", got, b.writer.Status())
		}
	})
}

func TestAWriterReportsThatTheJournalHasNoSpaceForItsAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		patches := new(atomic.Int32)
		b, _ := newBridged(t, func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodPatch {
					patches.Add(1)
				}
				return next.RoundTrip(r)
			})
		})
		_, err := b.source.Poll(t.Context())
		b.must(err)
		run(t, b.writer)
		const commands = 300
		for i := range commands {
			name := fmt.Sprintf("analyst-%d", i)
			accept(t, b.store, tickets.Command{TicketID: "SEC-1", Assignee: &name})
		}
		time.Sleep(time.Minute)
		stats, err := b.store.Stats(t.Context())
		b.must(err)
		if s := b.writer.Status(); s.State != sinks.StateRetrying || !strings.Contains(s.Error, "the journal is full") {
			t.Errorf("the writer is %+v", s)
		}
		if done := int(stats.Commands.Done); done < 10 || done == commands || int(patches.Load()) != done {
			t.Errorf("%d of %d commands were carried out, with %d requests", done, commands, patches.Load())
		}
		if stats.Bytes > 80<<10 {
			t.Errorf("the journal holds %d bytes", stats.Bytes)
		}
		for range 20 {
			b.drain()
			time.Sleep(2 * time.Minute)
		}
		if stats, err = b.store.Stats(t.Context()); err != nil || stats.Commands.Pending > 0 || b.writer.Status().State != sinks.StateRunning {
			t.Errorf("%d commands wait after the sink caught up, %v; the writer is %+v", stats.Commands.Pending, err, b.writer.Status())
		}
	})
}
