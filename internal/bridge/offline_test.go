package bridge_test

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/admin"
	"ndrbridge/internal/pipeline"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// openOffline opens the state of a bridge that does not run.
func openOffline(t *testing.T, yaml string) *pipeline.Offline {
	t.Helper()
	config := parse(t, yaml)
	f := require.Value(pipeline.OpenOffline(config, "test", slog.New(slog.DiscardHandler)))(t)
	t.Cleanup(func() {
		assert.NoError(t, f.Close())
	})
	return f
}

func TestTheStateOfABridgeThatDoesNotRun(t *testing.T) {
	_, url := startAppliance(t, 12)
	soc, away := startInbox(t), startInbox(t)
	both := configuration(t, url, webhookSink("soc", soc.URL)+webhookSink("away", away.URL))
	r := run(t, both)
	await(t, "the backlog", func() bool { return soc.count("") == 12 && away.count("") == 12 })
	r.stop()
	yaml := strings.Replace(both, webhookSink("away", away.URL), "", 1)
	path := statePath(t, yaml)

	t.Run("its status is read without writing to it", func(t *testing.T) {
		before, err := os.ReadFile(path)
		require.NoError(t, err)
		f := openOffline(t, yaml)
		status := require.Value(f.Status(t.Context()))(t)
		assert.True(t, !status.Running && status.State.Journal.Events == 12 && len(status.Appliances) == 1 && len(status.Appliances[0].Streams) == 2, status)
		detections := status.Appliances[0].Streams[0]
		assert.True(t, !detections.Position.IsZero() && detections.LagSeconds == nil, detections.Position, detections.LagSeconds)
		if len(status.Sinks) != 1 || status.Sinks[0].Kind != "webhook" || status.Sinks[0].State != "" ||
			len(status.Unconfigured) != 1 || status.Unconfigured[0].Name != "away" {
			t.Errorf("%+v", status)
		}
		deadLetters, err := admin.API.ListDeadLetters.Call(t.Context(), f.Client, admin.DeadRequest{OfDead: admin.OfDead{Sink: "away"}, Limit: 10})
		assert.True(t, len(deadLetters.DeadLetters) == 0 && err == nil, deadLetters, err)
		after, err := os.ReadFile(path)
		assert.True(t, err == nil && string(after) == string(before), "the file has changed", err)
	})
	t.Run("operations that need a running bridge are refused", func(t *testing.T) {
		f := openOffline(t, yaml)
		assert.ErrorIs(t, f.Tail(t.Context(), admin.From{}, nil), admin.ErrNotRunning)
		_, err := admin.API.GetHistory.Call(t.Context(), f.Client, admin.None{})
		assert.ErrorIs(t, err, admin.ErrNotRunning)
		_, err = f.Reload(t.Context())
		assert.ErrorIs(t, err, admin.ErrNotRunning)
	})
	t.Run("a sink is paused for the next run", func(t *testing.T) {
		f := openOffline(t, yaml)
		require.NoError(t, admin.API.PauseSink.Do(t.Context(), f.Client, admin.OfSink{Sink: "soc"}))
		s := sinkStatus(t, f.Client, "soc")
		assert.True(t, s.State == "paused" && !s.Since.IsZero(), s)
		require.NoError(t, admin.API.ResumeSink.Do(t.Context(), f.Client, admin.OfSink{Sink: "soc"}))
	})
	t.Run("events are queued for the next run", func(t *testing.T) {
		f := openOffline(t, yaml)
		n, err := admin.API.ReplayEvents.Call(t.Context(), f.Client, admin.ReplayRequest{OfSink: admin.OfSink{Sink: "soc"}, Replay: admin.Replay{Since: time.Now().Add(-time.Hour)}})
		require.True(t, n.Events == 12 && err == nil, n, err)
		s := sinkStatus(t, f.Client, "soc")
		assert.Equal(t, s.Redeliveries, 12, s)
	})
	t.Run("events are counted without writing to it", func(t *testing.T) {
		before := require.Value(os.ReadFile(path))(t)
		f := openOffline(t, yaml)
		n, err := admin.API.ReplayEvents.Call(t.Context(), f.Client, admin.ReplayRequest{OfSink: admin.OfSink{Sink: "soc"}, Replay: admin.Replay{Since: time.Now().Add(-time.Hour), DryRun: true}})
		assert.True(t, n.Events == 12 && err == nil, n, err)
		after, err := os.ReadFile(path)
		assert.True(t, err == nil && string(after) == string(before), "the file has changed", err)
	})
	t.Run("a sink that is configured is neither forgotten nor renamed", func(t *testing.T) {
		f := openOffline(t, yaml)
		assert.ErrorContains(t, admin.API.ForgetSink.Do(t.Context(), f.Client, admin.OfSink{Sink: "soc"}), "remove it there first")
		err := admin.API.RenameSink.Do(t.Context(), f.Client, admin.RenameRequest{OfSink: admin.OfSink{Sink: "soc"}, To: "other"})
		assert.True(t, err != nil && strings.Contains(err.Error(), "rename it there first"), err)
	})
	t.Run("a sink renamed in the configuration continues at its cursor", func(t *testing.T) {
		renamed := strings.Replace(yaml, "name: soc", "name: siem", 1)
		f := openOffline(t, renamed)
		require.NoError(t, admin.API.RenameSink.Do(t.Context(), f.Client, admin.RenameRequest{OfSink: admin.OfSink{Sink: "soc"}, To: "siem"}))
		require.NoError(t, f.Close())
		r := run(t, renamed)
		await(t, "the queued events", func() bool { return soc.redelivered() == 12 })
		r.stop()
		assert.Equal(t, soc.count(""), 24, "events came")
	})
	t.Run("a sink can be forgotten only once", func(t *testing.T) {
		f := openOffline(t, yaml)
		require.NoError(t, admin.API.ForgetSink.Do(t.Context(), f.Client, admin.OfSink{Sink: "away"}))
		assert.ErrorIs(t, admin.API.ForgetSink.Do(t.Context(), f.Client, admin.OfSink{Sink: "away"}), admin.ErrUnknown)
	})
}
