package pipeline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/configs"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/pipeline"
	"ndrbridge/poller"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/locked"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// upgradable is an appliance that is upgraded, with a bridge that reads it.
type upgradable struct {
	*testing.T
	appliance *standin.Appliance
	config    *configs.Config
	soc       *loopback.Receiver
	log       locked.Buffer
}

func newUpgradable(t *testing.T) *upgradable {
	u := &upgradable{T: t, appliance: standin.New(standin.Options{Seed: 1, NoAuditAPI: true}), soc: loopback.Receive(t)}
	shows := httptest.NewServer(u.appliance)
	t.Cleanup(shows.Close)
	var err error
	u.config, err = configs.Parse("ndrbridge.yaml", fmt.Appendf(nil, `
state: %s
appliances:
  - name: hq
    url: %q
    api_key: %s
    rate_limit: 1000
    detections: {start: beginning, interval: 20ms, page_size: 20, reconcile: {every: 1s}}
    audit: {start: beginning, interval: 20ms, page_size: 20}
    records: [{name: all, start: -1m, interval: 20ms, window: 1s, delay: 200ms, recheck: 1s, page_size: 20}]
sinks:
  - {name: soc, webhook: {url: %q}, batch: {linger: 0}, retry: {initial: 10ms, max: 50ms}}
`, filepath.Join(t.TempDir(), "state.db"), shows.URL, standin.DefaultAPIKey, u.soc.URL), nil)
	require.NoError(t, err)
	return u
}

// run runs a bridge while do does something.
func (u *upgradable) run(do func(*pipeline.Pipeline)) {
	u.Helper()
	p := pipeline.New(pipeline.Options{
		Version: "test", Log: slog.New(slog.NewTextHandler(&u.log, nil)), Stdout: io.Discard, Started: time.Now(),
		Registerer: prometheus.NewRegistry(), Pages: appliance.NewBudget(1 << 20),
	})
	require.NoError(u, p.Open(u.Context(), u.config))
	r := &running{Pipeline: p, ended: make(chan *pipeline.Stop, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { r.ended <- p.Run(ctx, func(...any) {}) }()
	do(p)
	cancel()
	assert.NoError(u, r.end(u.T))
}

// change lets n detections, entries and records appear, and some known detections change.
func (u *upgradable) change(n int, status string, known []*standin.Version) {
	u.Helper()
	u.appliance.AddMany(n)
	u.appliance.AddAudit(n)
	u.appliance.AddRecords(n)
	for _, v := range known {
		time.Sleep(2 * time.Millisecond) // each has a mod_time of its own
		require.NoError(u, u.appliance.Update(func(d *standin.Detection) { d.Status = standin.Text(status) }, v.ID))
	}
}

// expected returns how many events each stream has.
func (u *upgradable) expected() map[string]int {
	return map[string]int{
		transform.StreamDetections: len(u.appliance.History()), transform.StreamAudit: len(u.appliance.AuditHistory()),
		transform.StreamRecords: len(u.appliance.RecordHistory()),
	}
}

// counts returns how many events of each stream have arrived.
func (u *upgradable) counts() map[string]int {
	got := make(map[string]int)
	for _, e := range u.soc.Events() {
		got[e.Stream()]++
	}
	return got
}

// awaitAll waits until everything arrived.
func (u *upgradable) awaitAll() {
	u.Helper()
	await(u.T, "all events", func() bool {
		got := u.counts()
		for stream, n := range u.expected() {
			if got[stream] < n {
				return false
			}
		}
		return true
	})
}

// awaitRereads waits until everything arrived and was read several times since, and checks
// that nothing was repeated.
func (u *upgradable) awaitRereads() {
	u.Helper()
	u.awaitAll()
	since, begun := u.appliance.Requests(), time.Now()
	await(u.T, "more requests, and the next sweep and recheck", func() bool {
		now := u.appliance.Requests()
		return now["POST /detections/search"] >= since["POST /detections/search"]+50 && now["POST /records/search"] >= since["POST /records/search"]+3 &&
			time.Since(begun) > 2500*time.Millisecond
	})
	got, want := u.counts(), u.expected()
	assert.True(u, maps.Equal(got, want), "events of", got, want)
}

// summary returns the title in a detection's event, and which fields have changed.
func (u *upgradable) summary(e transform.Event) (title, changed string) {
	var data struct {
		Detection struct{ Title string }
		Changes   map[string]json.RawMessage
	}
	require.NoError(u, json.Unmarshal(e.Data(), &data))
	return data.Detection.Title, strings.Join(slices.Sorted(maps.Keys(data.Changes)), " ")
}

// judge checks that every version arrived once, as the stand-in made it.
func (u *upgradable) judge() {
	u.Helper()
	arrived := make(map[string][]transform.Event) // of each detection
	for _, e := range u.soc.Events() {
		switch e.Stream() {
		case transform.StreamDetections:
			arrived[e.Subject] = append(arrived[e.Subject], e)
		case transform.StreamEvents:
			u.Errorf("an event of the bridge's own: %s", e.Structured())
		}
	}
	encoder := transform.Encoder{Appliance: "hq"}
	made, tracked := make(map[int64]int), make(map[int64][]byte)
	for _, v := range u.appliance.History() {
		d, err := transform.ParseDetection(v.JSON, false)
		require.NoError(u, err)
		want, err := encoder.Detection(d, transform.Observation{Created: made[v.ID] == 0, Before: tracked[v.ID]})
		require.NoError(u, err)
		if len(arrived[want.Subject]) <= made[v.ID] {
			continue // a missing one was reported
		}
		got := arrived[want.Subject][made[v.ID]]
		made[v.ID]++
		tracked[v.ID] = d.Digested().Tracked
		title, changed := u.summary(got)
		wantTitle, wantChanged := u.summary(want)
		if got.Type != want.Type || got.SeverityText != want.SeverityText || want.Time.Sub(got.Time).Abs() >= time.Second ||
			title != wantTitle || changed != wantChanged {
			u.Errorf("%s is %s %s %s %q with changes of %q, want %s %s %s %q with %q", got.ID,
				got.Action(), got.SeverityText, got.Time, title, changed, want.Action(), want.SeverityText, want.Time, wantTitle, wantChanged)
		}
	}
	for _, claim := range []string{"another appliance", "level=ERROR"} {
		assert.NotContains(u, u.log.String(), claim, "the log", &u.log)
	}
}

func TestAnUpgradeRepeatsLosesAndMisreportsNothing(t *testing.T) {
	for _, upgrade := range standin.Upgrades() {
		t.Run(string(upgrade), func(t *testing.T) {
			t.Parallel()
			u := newUpgradable(t)
			var known []*standin.Version
			u.run(func(*pipeline.Pipeline) {
				u.change(50, "new", nil)
				u.awaitAll()
				known = u.appliance.Latest()
				u.change(10, "in_progress", known[:10])
				u.awaitAll()

				u.appliance.SetHazards(standin.Hazards{Upgrade: upgrade})
				u.awaitRereads()
				u.change(10, "acknowledged", known[5:15])
				u.awaitAll()
			})
			u.run(func(p *pipeline.Pipeline) {
				u.change(10, "closed", known[:20])
				u.awaitRereads()
				status, err := p.Control().Status(t.Context())
				assert.True(t, err == nil && status.Appliances[0].Replaced == nil, "the appliance is reported as replaced", status.Appliances, err)
				found, err := p.Control().Verify(t.Context(), "hq", time.Now().Add(-time.Hour), poller.VerifyReport{
					Progress: func(string, int, time.Time) {},
					Found:    func(d poller.Difference) { t.Errorf("verification finds %+v", d) },
				})
				assert.True(t, err == nil && len(found) != 0, "verification", found, err)
			})
			u.judge()
		})
	}
}
