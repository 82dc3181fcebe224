package pipeline

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/commands/intake"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// watched is a pipeline that runs only the monitor of the journal's space.
type watched struct {
	*Pipeline
	log   bytes.Buffer // read while the pipeline waits
	stats func() checkpoint.Stats
}

func watchRoom(t *testing.T, sinks string, limits checkpoint.Limits) *watched {
	t.Helper()
	config, err := configs.Parse("ndrbridge.yaml", []byte(`
appliances: [{name: hq, url: "https://sensor.example", api_key: k}]
sinks: `+sinks), nil)
	require.NoError(t, err)
	w := new(watched)
	store, err := checkpoint.Open(filepath.Join(t.TempDir(), "state.db"), checkpoint.Options{Limits: limits})
	require.NoError(t, err)
	w.Pipeline = &Pipeline{store: store, options: Options{Log: slog.New(slog.NewTextHandler(&w.log, nil))}}
	w.current.Store(&runtime{config: config})
	require.NoError(t, w.configure(t.Context(), config.Sinks))
	w.stats = func() checkpoint.Stats {
		stats := require.Value(store.Stats(t.Context()))(t)
		return stats
	}
	w.parts.start(t.Context(), &part{name: "watch", tasks: []task{prompt(w.watchSpace)}})
	return w
}

func (w *watched) stop(t *testing.T) {
	t.Helper()
	endAll(t, &w.parts)
	assert.NoError(t, w.store.Close())
}

// commit commits an event of a size, or gives up when ctx ends.
func (w *watched) commit(ctx context.Context, t *testing.T, size int) {
	t.Helper()
	now := time.Now()
	event, err := transform.New(transform.Attributes{
		ID: now.String(), Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection.created", RecordedTime: now,
	}, []byte(`{"x":"`+strings.Repeat("x", size)+`"}`))
	require.NoError(t, err)
	source := checkpoint.Source{Appliance: "hq", Stream: "detections"}
	expect := require.Value(w.store.Position(ctx, source))(t)
	_ = w.store.Commit(ctx, checkpoint.Commit{Source: source, Expect: expect, Position: []byte(now.String()), Events: []transform.Event{event}})
}

// acknowledgeAll acknowledges all events for the sink log.
func (w *watched) acknowledgeAll(t *testing.T) {
	t.Helper()
	stats := w.stats()
	err := w.store.CommitDelivery(t.Context(), checkpoint.Delivery{Sink: "log", Expect: stats.Sinks["log"].Cursor, Cursor: stats.Last})
	require.NoError(t, err)
}

// refuseLog fails the test unless the log contains a text this many times.
func (w *watched) refuseLog(t *testing.T, text string, want int) {
	t.Helper()
	assert.Equal(t, strings.Count(w.log.String(), text), want, "the log says", "times", text, &w.log)
}

func TestRefusedMessagesLeaveSpaceForTheAnswersToTickets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchRoom(t, `[{name: log, file: {path: "-"}}]`, checkpoint.Limits{MaxBytes: 1000})
		w.commit(t.Context(), t, 1000)
		for range 500 {
			time.Sleep(time.Millisecond)
			refusal := intake.Refusal{Message: "stream TICKETS, message 1", Reason: "a message is not a command", Sent: time.Now()}
			require.NoError(t, w.refuse(t.Context(), refusal))
		}
		synctest.Wait()
		if space, err := w.store.HasSpace(t.Context()); err != nil || !space {
			t.Errorf("space for answers: %t, %v; the journal holds %d bytes", space, err, w.stats().Bytes)
		}
		assert.Contains(t, w.log.String(), "a message was refused without an event", "the refusals did not use up what they may", &w.log)
		w.stop(t)
	})
}

func TestJournalSpaceIsMonitored(t *testing.T) {
	const log = `[{name: log, file: {path: "-"}, lag: {max_bytes: 3KiB}}]`
	t.Run("the log reports once that sources wait, with the slowest sink, and once that they continue", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := watchRoom(t, log, checkpoint.Limits{MaxBytes: 1000})
			w.commit(t.Context(), t, 1000)
			var waiting partSet
			waiting.start(t.Context(), &part{name: "waiting", tasks: []task{prompt(func(ctx context.Context) { w.commit(ctx, t, 1000) })}})
			time.Sleep(time.Minute)
			synctest.Wait()
			w.refuseLog(t, "sink_that_is_behind=log lag_events=1", 1)
			w.refuseLog(t, "has space again", 0)
			endAll(t, &waiting)
			w.acknowledgeAll(t)
			time.Sleep(time.Minute)
			synctest.Wait()
			w.refuseLog(t, "has space again", 1)
			w.stop(t)
		})
	})
	t.Run("the log reports once that a sink exceeds its budget, and once that it is within it again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := watchRoom(t, log, checkpoint.Limits{})
			w.commit(t.Context(), t, 1000)
			time.Sleep(time.Minute)
			synctest.Wait()
			w.refuseLog(t, "too far behind", 0)
			for range 3 {
				w.commit(t.Context(), t, 1000)
				time.Sleep(time.Millisecond)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			w.refuseLog(t, "too far behind", 1)
			w.refuseLog(t, "within its lag budget again", 0)
			w.acknowledgeAll(t)
			time.Sleep(time.Minute)
			synctest.Wait()
			w.refuseLog(t, "within its lag budget again", 1)
			w.stop(t)
		})
	})
	t.Run("a sink that skips does not fill it", func(t *testing.T) {
		config := &configs.Config{Sinks: []configs.Sink{
			{Name: "chat", Lag: configs.Lag{Policy: configs.LagSkip}},
			{Name: "lake", Lag: configs.Lag{Policy: configs.LagBlock}},
			{Name: "siem", Lag: configs.Lag{Policy: configs.LagBlock}},
		}}
		stats := checkpoint.Stats{Sinks: map[string]checkpoint.SinkStats{"chat": {LagBytes: 9}, "lake": {LagBytes: 1}, "siem": {LagBytes: 2}}}
		assert.Equal(t, fillingSink(config, stats), "siem")
		delete(stats.Sinks, "lake")
		delete(stats.Sinks, "siem")
		assert.Equal(t, fillingSink(config, stats), "", "of sinks that have delivered everything")
	})
}
