package pipeline_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/cluster"
	"ndrbridge/internal/pipeline"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/ledger"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// process is shared by the pipelines of a test.
type process struct {
	registry *prometheus.Registry
	pages    *appliance.Budget
	book     *ledger.Ledger
}

func newProcess() *process {
	return &process{registry: prometheus.NewRegistry(), pages: appliance.NewBudget(1 << 20), book: ledger.New()}
}

// member is a pipeline with a state, an appliance and a sink of its own.
type member struct {
	name      string
	appliance *standin.Appliance
	config    *configs.Config
	owned     *cluster.Ownership // nil: none
	slow      chan struct{}      // if not nil, the webhook receives and does not answer
	followUps chan transform.Event
}

// add returns a member whose appliance has n detections.
func (p *process) add(t *testing.T, name string, n int) *member {
	t.Helper()
	m := &member{name: name, appliance: standin.New(standin.Options{Seed: 1}), followUps: make(chan transform.Event, 10)}
	m.appliance.AddBacklog(n, time.Hour)
	shows := httptest.NewServer(m.appliance)
	t.Cleanup(shows.Close)
	takes := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if m.slow != nil {
			select {
			case m.slow <- struct{}{}:
			default: // others are under way
			}
			<-r.Context().Done()
			return
		}
		e, err := transform.Parse(body)
		if err != nil {
			t.Errorf("%v: %s", err, body)
			return
		}
		if e.IsFollowUp() {
			m.followUps <- e
			return
		}
		p.book.Receive(name, e)
	}))
	t.Cleanup(takes.Close)
	var err error
	m.config, err = configs.Parse("ndrbridge.yaml", fmt.Appendf(nil, `
state: %s
appliances:
  - {name: hq, url: %q, api_key: %s, rate_limit: 1000, detections: {start: beginning, interval: 20ms}, audit: {enabled: false}}
sinks:
  - {name: soc, webhook: {url: %q}, batch: {linger: 0}, retry: {initial: 10ms, max: 50ms}}
`, filepath.Join(t.TempDir(), "state.db"), shows.URL, standin.DefaultAPIKey, takes.URL), nil)
	require.NoError(t, err)
	return m
}

// running is a pipeline that runs.
type running struct {
	*pipeline.Pipeline
	cancel context.CancelFunc
	ended  chan *pipeline.Stop
}

// run runs a member.
func (p *process) run(t *testing.T, m *member) *running {
	t.Helper()
	r := &running{ended: make(chan *pipeline.Stop, 1), Pipeline: pipeline.New(pipeline.Options{
		Version: "test", Log: slog.New(slog.DiscardHandler), Stdout: io.Discard, Started: time.Now(),
		Registerer: p.registry, Pages: p.pages,
		Ownership: m.owned,
	})}
	require.NoError(t, r.Open(t.Context(), m.config))
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() { r.ended <- r.Run(ctx, func(...any) {}) }()
	return r
}

// end waits until Run has returned, closes the pipeline, and returns the error of its
// state.
func (r *running) end(t *testing.T) error {
	t.Helper()
	stopped := <-r.ended
	r.Close(stopped)
	assert.Empty(t, stopped.Left, "were abandoned")
	return r.Err()
}

// judge waits until a member has delivered everything, and requires that it was
// delivered once.
func (p *process) judge(t *testing.T, m *member) {
	t.Helper()
	var shown []ledger.Version
	for _, v := range m.appliance.History() {
		shown = append(shown, ledger.Version{ID: v.ID, ModTime: v.ModTime, Object: string(v.JSON)})
	}
	await(t, "everything of "+m.name, func() bool { return p.book.Received(m.name) >= len(shown) })
	verdict := p.book.Judge(m.name, shown)
	assert.True(t, len(verdict.Faults) == 0 && verdict.Duplicates <= 0, m.name, verdict)
}

// delivered returns how many events the metrics count as delivered; false: there are none.
func (p *process) delivered(t *testing.T) (n float64, found bool) {
	t.Helper()
	families := require.Value(p.registry.Gather())(t)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "ndrbridge_sink_events_total" && strings.Contains(m.String(), `"delivered"`) {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n, len(families) > 0
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "gave up waiting", what)
	}
}

// A member of a cluster runs a pipeline each time that it becomes the owner.
func TestAPipelineThatEndedLeavesNothingInTheProcess(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*member, *running) error // makes the pipeline end
		err  error                         // of its state
	}{
		{"it is stopped", func(_ *member, r *running) error { r.cancel(); return nil }, nil},
		{"its state fails", func(m *member, _ *running) error { return os.Remove(m.config.State) }, checkpoint.ErrLost},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newProcess()
			m := p.add(t, "a", 300)
			r := p.run(t, m)
			p.judge(t, m)
			await(t, "its metrics", func() bool { n, _ := p.delivered(t); return n == 300 })
			require.NoError(t, c.end(m, r))
			assert.ErrorIs(t, r.end(t), c.err, "it ended with")
			m.appliance.AddMany(50)
			_, found := p.delivered(t)
			assert.False(t, found, "it has metrics")
			assert.Equal(t, p.book.Received("a"), 300, "events from a pipeline that ended after 300")
			if c.err != nil {
				return
			}
			again := p.run(t, m)
			p.judge(t, m)
			await(t, "the metrics of the next one", func() bool { n, _ := p.delivered(t); return n == 50 })
			again.cancel()
			assert.NoError(t, again.end(t))
		})
	}
}

func TestTheLagOfASourceGrowsWhileItsApplianceIsDown(t *testing.T) {
	p := newProcess()
	m := p.add(t, "a", 10)
	r := p.run(t, m)
	// lag returns the values of the metric and of the status.
	lag := func() (metric, status float64, backlog bool) {
		families := require.Value(p.registry.Gather())(t)
		for _, f := range families {
			if f.GetName() == "ndrbridge_source_lag_seconds" {
				metric = f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		now := require.Value(r.Control().Status(t.Context()))(t)
		if of := now.Appliances[0].Streams[0]; of.LagSeconds != nil {
			status, backlog = *of.LagSeconds, of.Backlog != nil
		}
		return metric, status, backlog
	}
	p.judge(t, m)
	m.appliance.SetHazards(standin.Hazards{Reset: 1})
	begun := time.Now()
	for _, least := range []float64{0.2, 0.5} {
		await(t, "a lag", func() bool {
			metric, status, backlog := lag()
			longest := time.Since(begun).Seconds() + 10
			require.True(t, metric <= longest && status <= longest && !backlog, "the lag", metric, status, longest-10, "with a backlog", backlog)
			return metric >= least && status >= least
		})
	}
	m.appliance.SetHazards(standin.Hazards{})
	await(t, "no lag", func() bool {
		metric, status, _ := lag()
		return metric == 0 && status == 0
	})
	r.cancel()
	assert.NoError(t, r.end(t))
}

func TestADetectionThatIsNoLongerShownIsDelivered(t *testing.T) {
	p := newProcess()
	m := p.add(t, "a", 10)
	reconcile := &m.config.Appliances[0].Detections.Reconcile
	reconcile.Every, reconcile.Report = configs.Duration(20*time.Millisecond), []string{"gone"}
	r := p.run(t, m)
	p.judge(t, m)
	id := m.appliance.History()[3].ID
	m.appliance.Hide(id)
	await(t, "the event", func() bool { return len(m.followUps) > 0 })
	e := <-m.followUps
	assert.True(t, e.Type == transform.TypePrefix+"detection.gone" && e.PartitionKey == fmt.Sprint(id), e.Type, "of", e.PartitionKey)
	now := require.Value(r.Control().Status(t.Context()))(t)
	stream := now.Appliances[0].Streams[1]
	assert.True(t, stream.Stream == "detections/lifecycle" && stream.Error == "" && !stream.Off, stream)
	r.cancel()
	assert.NoError(t, r.end(t))
}

func TestFollowUpsOfDetectionsWaitForABacklog(t *testing.T) {
	p := newProcess()
	m := p.add(t, "a", 300)
	var pages, notes, notesBefore, rulesBefore atomic.Int64
	shows := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/notes"):
			notes.Add(1)
		case strings.HasSuffix(r.URL.Path, "/detections/search"):
			time.Sleep(10 * time.Millisecond)
			if pages.Add(1) == 28 {
				notesBefore.Store(notes.Load())
			}
		case strings.HasSuffix(r.URL.Path, "/hiding") && pages.Load() < 28:
			rulesBefore.Add(1)
		}
		m.appliance.ServeHTTP(w, r)
	}))
	defer shows.Close()
	a := &m.config.Appliances[0]
	a.URL, a.Detections.PageSize = shows.URL, 10
	a.Notes.In, a.Notes.Interval = true, configs.Duration(10*time.Millisecond)
	a.Rules.Enabled, a.Rules.Interval = true, configs.Duration(10*time.Millisecond)
	r := p.run(t, m)
	p.judge(t, m)
	await(t, "notes", func() bool { return notes.Load() >= 300 })
	assert.True(t, notesBefore.Load() <= 10, notesBefore.Load(), "notes were read before") // those of a page that is about to be known
	assert.True(t, rulesBefore.Load() > 1, rulesBefore.Load(), "polls of rules before")
	r.cancel()
	assert.NoError(t, r.end(t))
}
