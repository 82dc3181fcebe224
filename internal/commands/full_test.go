package commands_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/commands"
	"ndrbridge/sinks"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

func TestAWriterReportsThatTheJournalHasNoSpaceForItsAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := checkpoint.Open(filepath.Join(t.TempDir(), "state.db"), checkpoint.Options{Limits: checkpoint.Limits{MaxBytes: 1}})
		require.NoError(t, err)
		t.Cleanup(func() { store.Close() })
		require.NoError(t, store.Configure(t.Context(), map[string]checkpoint.Start{"lake": {}}))
		event, err := transform.Encoder{Appliance: "hq"}.TicketResult(transform.Ticket{TicketID: "SEC-0"}, time.Now())
		require.NoError(t, err)
		source := checkpoint.Source{Appliance: "hq", Stream: transform.StreamDetections}
		require.NoError(t, store.Commit(t.Context(), checkpoint.Commit{Source: source, Position: []byte("p"), Events: []transform.Event{event}}))
		// The journal is full now.
		patches := new(atomic.Int32)
		a, _ := withTicket(t)
		answer := inProcess(a, "", new(atomic.Int32))
		w := newWriter(t, store, "http://sensor.example", roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPatch {
				patches.Add(1)
			}
			return answer.RoundTrip(r)
		}))
		run(t, w)
		const total = 300
		for i := range total {
			name := fmt.Sprintf("analyst-%d", i)
			accept(t, store, commands.Command{TicketID: "SEC-1", Assignee: &name})
		}
		time.Sleep(time.Minute)
		stats := require.Value(store.Stats(t.Context()))(t)
		s := w.Status()
		assert.True(t, s.State == sinks.StateRetrying && strings.Contains(s.Error, "the journal is full"), "the writer", s)
		done := int(stats.Commands.Done)
		assert.True(t, done >= 10 && done != total && int(patches.Load()) == done, done, total, "commands were carried out, with", patches.Load(), "requests")
		assert.True(t, stats.Bytes <= 80<<10, "the journal holds", stats.Bytes, "bytes")
		for range 20 { // the sink catches up
			stats := require.Value(store.Stats(t.Context()))(t)
			require.NoError(t, store.CommitDelivery(t.Context(), checkpoint.Delivery{Sink: "lake", Expect: stats.Sinks["lake"].Cursor, Cursor: stats.Last}))
			time.Sleep(2 * time.Minute)
		}
		if stats, err = store.Stats(t.Context()); err != nil || stats.Commands.Pending > 0 || w.Status().State != sinks.StateRunning {
			t.Errorf("%d commands wait after the sink caught up, %v; the writer is %+v", stats.Commands.Pending, err, w.Status())
		}
	})
}
