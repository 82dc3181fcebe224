package pipeline

import (
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/appliance"
	"ndrbridge/poller"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// direct answers requests by a handler, without a network: time stands still
// meanwhile.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Result(), nil
}

// sampled is a pipeline that runs only a stream, sinks and the history.
type sampled struct {
	*Pipeline
	config *configs.Config
}

func keepHistory(t *testing.T, a *standin.Appliance, sinks string) *sampled {
	t.Helper()
	store, err := checkpoint.Open(filepath.Join(t.TempDir(), "state.db"), checkpoint.Options{Limits: checkpoint.Limits{Retain: time.Hour}})
	require.NoError(t, err)
	s := &sampled{Pipeline: &Pipeline{options: Options{Log: slog.New(slog.DiscardHandler), Stdout: io.Discard, Started: time.Now()}, store: store, metrics: newMetrics(prometheus.NewRegistry())}}
	s.replace(t, a, sinks)
	s.parts.start(t.Context(), &part{name: "history", tasks: []task{prompt(s.keepHistory)}})
	return s
}

// replace replaces the running poller of a and the running sinks.
func (s *sampled) replace(t *testing.T, a *standin.Appliance, sinks string) {
	t.Helper()
	var err error
	s.config, err = configs.Parse("ndrbridge.yaml", []byte(`
appliances: [{name: hq, url: "http://sensor.example", api_key: `+standin.DefaultAPIKey+`, audit: {enabled: false}, detections: {start: beginning, interval: 1s}}]
sinks: `+sinks), nil)
	require.NoError(t, err)
	all := &runtime{config: s.config}
	require.NoError(t, s.configure(t.Context(), s.config.Sinks))
	now := s.current.Load()
	if now == nil {
		now = new(runtime)
	}
	var failed []error
	for _, sink := range s.config.Sinks {
		add(&all.sinks, &failed, now.sinks, "sink "+sink.Name, nil, sink, func(*sinkPart) (*sinkPart, error) { return s.newSink(sink, configs.TicketNotes{}) })
	}
	require.NoError(t, errors.Join(failed...))
	for _, p := range all.sinks {
		if p.runner == nil {
			p.attach(s.store, checkpoint.SinkStats{})
			s.parts.start(t.Context(), &p.part)
		}
	}
	if all.appliances = now.appliances; all.appliances == nil {
		client, err := appliance.New(appliance.Options{
			URL: "http://sensor.example", Key: func() (string, error) { return standin.DefaultAPIKey, nil }, Transport: direct{a},
		})
		require.NoError(t, err)
		p := &appliancePart{part: part{name: "appliance hq"}, config: s.config.Appliances[0], client: client, system: newSystem("hq", client, s.store, s.options.Log)}
		p.watch = poller.NewWatch(s.store, poller.WatchOptions{Appliance: "hq", After: 3, Reached: p.system.reached, Log: s.options.Log})
		of := streams{appliance: p.config, client: client, store: s.store, metrics: s.metrics.sources, log: s.options.Log}
		source := sourcesOf(s.config, p.config)[0].open(&of)
		p.streams = []stream{{source, poller.New(source, poller.Options{
			Interval: time.Second, RetryInitial: time.Second, RetryMax: time.Second, Watch: p.watch, Log: s.options.Log, Metrics: s.metrics.sources,
		})}}
		p.tasks = []task{prompt(p.watch.Run), prompt(p.system.run), prompt(p.streams[0].poller.Run)}
		s.parts.start(t.Context(), &p.part)
		all.appliances = []*appliancePart{p}
	}
	s.current.Store(all)
}

func (s *sampled) stop(t *testing.T) {
	t.Helper()
	endAll(t, &s.parts)
	assert.NoError(t, s.store.Close())
}

func (s *sampled) report(t *testing.T) (admin.Status, admin.History) {
	t.Helper()
	synctest.Wait()
	status := require.Value(s.Control().Status(t.Context()))(t)
	h := require.Value(admin.API.GetHistory.Call(t.Context(), s.Control(), admin.None{}))(t)
	return status, h
}

// plain returns a list with -1 for unknown values.
func plain[T uint64 | float64](values []*T) []T {
	var all []T
	for _, v := range values {
		if v == nil {
			v = new(T)
			*v--
		}
		all = append(all, *v)
	}
	return all
}

func TestHistoryCoversAnHour(t *testing.T) {
	const one = `[{name: log, file: {path: "-"}, start: beginning}]`
	t.Run("rates are since the previous sample, and the status has the mean of a minute", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := standin.New(standin.Options{Seed: 1, Now: time.Now})
			s := keepHistory(t, a, one)
			defer s.stop(t)
			time.Sleep(20 * time.Second)
			a.AddBacklog(150, time.Second)
			time.Sleep(50 * time.Second) // to 10 s behind the sample at 60 s
			status, h := s.report(t)
			stream, sink := status.Appliances[0].Streams[0], status.Sinks[0]
			assert.Equal(t, stream.Events, 150, "events")
			assert.Equal(t, sink.Delivered, 150, "delivered")
			want := 150.0 / 70
			assert.True(t, stream.EventsPerSecond == want && sink.EventsPerSecond == want, stream.EventsPerSecond, sink.EventsPerSecond, "events a second, want", want)
			if stream.LagSeconds == nil || *stream.LagSeconds != 0 || time.Since(stream.Position) > 3*time.Second {
				t.Errorf("lag %v at %v, want none at about %v", stream.LagSeconds, stream.Position, time.Now())
			}
			assert.EqualSlices(t, plain(h.Streams[0].EventsPerSecond), []float64{-1, 0, 10, 0, 0}, "events a second")
			assert.EqualSlices(t, plain(h.Sinks[0].EventsPerSecond), []float64{-1, 0, 10, 0, 0}, "delivered a second")
			got := plain(h.Streams[0].LagSeconds)
			assert.EqualSlices(t, got[1:], []float64{0, 0, 0, 0}, "lag of the stream", got)
			assert.True(t, h.StepSeconds == 15 && h.Until.Equal(s.options.Started.Add(time.Minute)) && len(h.Journal.Bytes) == 5 && *h.Journal.Bytes[4] != 0, h)
			time.Sleep(2 * time.Minute)
			status, _ = s.report(t)
			assert.True(t, status.Sinks[0].EventsPerSecond == 0 && status.Sinks[0].Delivered == 150, "later", status.Sinks[0])
		})
	})
	t.Run("a sink that is paused lags behind more and more", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := standin.New(standin.Options{Seed: 1, Now: time.Now})
			s := keepHistory(t, a, one)
			defer s.stop(t)
			s.current.Load().sinks[0].runner.Pause()
			a.AddBacklog(7, time.Second)
			time.Sleep(40 * time.Second)
			status, h := s.report(t)
			got, want := plain(h.Sinks[0].LagEvents), []uint64{7, 7}
			assert.EqualSlices(t, got[1:], want, "lag in events", got)
			seconds := plain(h.Sinks[0].LagSeconds)
			assert.True(t, seconds[1] > 0 && math.Abs(seconds[2]-seconds[1]-15) < 1e-6 && status.Sinks[0].LagSeconds > seconds[2], "lag in seconds", seconds, "now", status.Sinks)
		})
	})
	t.Run("an added sink begins without values and a removed one disappears", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := standin.New(standin.Options{Seed: 1, Now: time.Now})
			s := keepHistory(t, a, one)
			defer s.stop(t)
			time.Sleep(time.Second) // after the first sample
			a.AddBacklog(3, time.Second)
			time.Sleep(19 * time.Second)
			other := `[{name: other, file: {path: ` + filepath.Join(t.TempDir(), "other") + `}, start: beginning}`
			s.replace(t, a, other+`, {name: log, file: {path: "-"}, start: beginning}]`)
			time.Sleep(30 * time.Second)
			_, h := s.report(t)
			require.True(t, len(h.Sinks) == 2 && h.Sinks[0].Sink == "other" && h.Sinks[1].Sink == "log", h.Sinks)
			for what, c := range map[string]struct{ got, want []float64 }{
				"rate of the new":  {plain(h.Sinks[0].EventsPerSecond), []float64{-1, -1, -1, 0}},
				"lag of the new":   {plain(h.Sinks[0].LagSeconds), []float64{-1, -1, 0, 0}},
				"rate of the old":  {plain(h.Sinks[1].EventsPerSecond), []float64{-1, 0.2, 0, 0}},
				"rate of a stream": {plain(h.Streams[0].EventsPerSecond), []float64{-1, 0.2, 0, 0}},
			} {
				assert.EqualSlices(t, c.got, c.want, what)
			}
			s.replace(t, a, other+`]`)
			_, h = s.report(t)
			assert.True(t, len(h.Sinks) == 1 && h.Sinks[0].Sink == "other", h.Sinks)
		})
	})
	t.Run("it is an hour long, and all lists are of one length", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := keepHistory(t, standin.New(standin.Options{Seed: 1, Now: time.Now}), one)
			defer s.stop(t)
			time.Sleep(90*time.Minute + time.Second)
			_, h := s.report(t)
			for _, n := range []int{
				len(h.Journal.Bytes), len(h.Streams[0].EventsPerSecond), len(h.Streams[0].LagSeconds),
				len(h.Sinks[0].EventsPerSecond), len(h.Sinks[0].LagEvents), len(h.Sinks[0].LagSeconds),
			} {
				assert.Equal(t, n, 240, "samples")
			}
			assert.True(t, h.Until.Equal(s.options.Started.Add(90*time.Minute)), "until", h.Until)
		})
	})
}

func TestARateIsUnknownAfterACountRestarts(t *testing.T) {
	owner, now := checkpoint.SinkOwner("lake"), time.Now()
	var h history
	for i, count := range []uint64{5, 20, 3, 6} {
		h.add(moment{at: now.Add(time.Duration(i) * historyStep), rows: map[checkpoint.Owner]row{owner: {count: count}}})
	}
	got, want := plain(column(h.moments, func(m moment) *float64 { return m.rows[owner].perSecond })), []float64{-1, 1, -1, 0.2}
	assert.EqualSlices(t, got, want, "rates")
	assert.Equal(t, h.rate(owner, 12, now.Add(4*historyStep)), 9.0/30, "mean rate")
}

func TestTimeUntilTheJournalIsFull(t *testing.T) {
	owner := checkpoint.SinkOwner("lake")
	for _, c := range []struct {
		name  string
		bytes []int64 // of the lag, sampled each minute; the last is now
		want  float64
	}{
		{"without a sample it is not foreseeable", []int64{50}, 0},
		{"what does not grow does not fill it", []int64{50, 50, 50}, 0},
		{"nor what shrinks", []int64{50, 40}, 0},
		{"what grows fills it at its rate", []int64{0, 10, 20}, 480},
		{"what is full is not filled", []int64{0, 100}, 0},
		{"old samples do not count", []int64{0, 50, 50, 50, 50, 50, 50}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var h history
			now := time.Now()
			last := len(c.bytes) - 1
			for i, bytes := range c.bytes[:last] {
				h.add(moment{at: now.Add(time.Duration(i-last) * time.Minute), rows: map[checkpoint.Owner]row{owner: {lagBytes: bytes}}})
			}
			assert.Equal(t, h.secondsUntil(100, owner, 0, c.bytes[last], now), c.want, "seconds")
		})
	}
}
