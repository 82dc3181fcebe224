//go:build e2e

package page

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	cdppage "github.com/chromedp/cdproto/page"

	"ndrbridge/internal/admin"
	"ndrbridge/test/assert"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

// picture writes a screenshot of the viewport or, if whole is set, of the whole page.
func (p *tab) picture(name string, whole bool) {
	p.t.Helper()
	folder := os.Getenv("NDRBRIDGE_SCREENSHOTS")
	if folder == "" {
		folder = filepath.Join(os.TempDir(), "ndrbridge-screenshots")
	}
	require.NoError(p.t, os.MkdirAll(folder, 0o755))
	path := filepath.Join(folder, name+".png")
	picture := call(p, cdppage.CaptureScreenshot, cdppage.CaptureScreenshotParams{CaptureBeyondViewport: &whole})
	require.NoError(p.t, os.WriteFile(path, picture.Data, 0o644))
	p.t.Log("wrote ", path)
}

// withHistory serves a proxy of a bridge whose history is replaced with samples of a
// whole hour.
func withHistory(t *testing.T, bridge string) (address string) {
	t.Helper()
	target, err := url.Parse(bridge)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	mux := http.NewServeMux()
	mux.Handle("/", proxy)
	mux.HandleFunc("/api/v1/history", func(w http.ResponseWriter, r *http.Request) {
		client, err := admin.NewClient(bridge, "")
		if err != nil {
			t.Error(err)
			return
		}
		h, err := admin.API.GetHistory.Call(r.Context(), client, admin.None{})
		if err != nil {
			t.Error(err)
			return
		}
		const samples = 240
		floats := func(of func(at float64) float64) (list []*float64) {
			for i := range samples {
				list = append(list, new(math.Max(0, of(float64(i)/samples))))
			}
			return list
		}
		rate := func(at float64) float64 {
			return 40 + 30*math.Sin(at*9) + 8*math.Sin(at*71) + 5*math.Sin(at*200)
		}
		outage := func(at float64) float64 { return math.Max(0, at-.7) }
		h.StepSeconds, h.Until = 15, time.Now()
		for i := range h.Streams {
			h.Streams[i].EventsPerSecond = floats(func(at float64) float64 { return rate(at+float64(i)) / (1 + 5*float64(i)) })
			h.Streams[i].LagSeconds = floats(func(at float64) float64 { return .3 + .2*math.Sin(at*11+float64(i)) + .05*math.Sin(at*130) })
			if i == 1 {
				copy(h.Streams[i].LagSeconds[60:90], make([]*float64, 30))
				copy(h.Streams[i].EventsPerSecond[60:90], make([]*float64, 30))
			}
		}
		for i := range h.Sinks {
			h.Sinks[i].EventsPerSecond = floats(func(at float64) float64 {
				if i == 0 && outage(at) > 0 {
					return 0
				}
				return rate(at)
			})
			h.Sinks[i].LagEvents = nil
			for _, lag := range floats(func(at float64) float64 {
				if i == 0 {
					return 5 + 4000*outage(at)
				}
				return 9 + 4*math.Sin(at*13+float64(i)) + 3*math.Sin(at*150)
			}) {
				h.Sinks[i].LagEvents = append(h.Sinks[i].LagEvents, new(uint64(*lag)))
			}
		}
		status, err := client.Status(r.Context())
		if err != nil {
			t.Error(err)
			return
		}
		h.Journal.Bytes = nil
		for i := range int64(samples) {
			h.Journal.Bytes = append(h.Journal.Bytes, new(status.State.Journal.Bytes*(samples+1+i)/(2*samples)))
		}
		w.Header().Set("Content-Type", "application/json")
		assert.NoError(t, json.NewEncoder(w).Encode(h))
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// withCluster serves a proxy of a bridge that is a member of a cluster. Without an owner, it has no
// status.
func withCluster(t *testing.T, bridge string, cluster func() *admin.Cluster) (address string) {
	t.Helper()
	target, err := url.Parse(bridge)
	require.NoError(t, err)
	answer := func(w http.ResponseWriter, value any) {
		w.Header().Set("Content-Type", "application/json")
		assert.NoError(t, json.NewEncoder(w).Encode(value))
	}
	mux := http.NewServeMux()
	mux.Handle("/", httputil.NewSingleHostReverseProxy(target))
	mux.HandleFunc("/api/v1/cluster", func(w http.ResponseWriter, _ *http.Request) { answer(w, cluster()) })
	mux.HandleFunc("/api/v1/status", func(w http.ResponseWriter, r *http.Request) {
		seen := cluster()
		if seen != nil && seen.Owner == "" {
			w.WriteHeader(http.StatusServiceUnavailable)
			answer(w, map[string]any{"detail": "no member owns the log"})
			return
		}
		client, err := admin.NewClient(bridge, "")
		if err != nil {
			t.Error(err)
			return
		}
		status, err := client.Status(r.Context())
		if err != nil {
			t.Error(err)
			return
		}
		status.Cluster = seen
		answer(w, status)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// someCluster has members in several states.
func someCluster() *admin.Cluster {
	now := time.Now()
	return &admin.Cluster{
		Name: "prod", ID: "7e1f", Generation: 2, Member: "bridge-2", Owner: "bridge-1", LeaseSeconds: 5.1, LogBytes: 12 << 20, Snapshot: now.Add(-4 * time.Hour),
		Members: []admin.ClusterMember{
			{Member: "bridge-1", Version: "1.4.0", Since: now.Add(-72 * time.Hour), State: admin.MemberOwning, Config: admin.ConfigSame, Generation: 2, Offset: 1203, Ready: true},
			{Member: "bridge-2", Version: "1.4.0", Since: now.Add(-12 * time.Minute), State: admin.MemberFollowing, Config: admin.ConfigDiffers, Generation: 2, Offset: 1200, Behind: 3},
			{
				Member: "bridge-3", Version: "1.3.0", Since: now.Add(-48 * time.Hour), State: admin.MemberAway, Config: admin.ConfigUnknown, Generation: 1, Offset: 120000,
				Error: "open /var/lib/ndrbridge/state.db: no space left on device",
			},
		},
	}
}

// TestLooks checks a page with many states with axe-core, in both colour schemes, at the
// sizes of a desktop, a tablet and a phone. It writes screenshots to NDRBRIDGE_SCREENSHOTS, or to a
// temporary folder.
func TestLooks(t *testing.T) {
	a, applianceURL := startAppliance(t)
	b, branchURL := startAppliance(t)
	b.SetSkew(3 * time.Minute)
	a.AddBacklog(60, time.Hour)
	a.AddAudit(12)
	b.AddBacklog(5, time.Hour)
	soc, lake, chat := loopback.Receive(t), loopback.Receive(t), loopback.Receive(t)
	lake.Answer(http.StatusUnprocessableEntity)
	soc.Answer(http.StatusUnauthorized)
	bridgeURL, _ := startBridge(t, settings{
		appliances: hq(applianceURL) + "  - {name: branch, url: \"" + branchURL + "\", api_key: stand-in-key, detections: {start: beginning, interval: 50ms}, audit: {enabled: false}}\n",
		sinks: webhook("soc", soc.URL) + "  - {name: lake, webhook: {url: \"" + lake.URL + "\"}, batch: {linger: 0}, match: 'event.appliance == \"branch\"', retry: {initial: 50ms, max: 200ms}}\n" +
			webhook("chat", chat.URL) + webhook("archive", loopback.Receive(t).URL),
		tickets: "tickets: {enabled: true, nats: {url: \"nats://127.0.0.1:9\", stream: CMD}}\n",
	})
	page := withCluster(t, withHistory(t, bridgeURL), someCluster)
	rules := loadAxe(t)
	p := openTab(t, page)
	p.awaitText(card("soc", ""), "Halted")
	p.awaitText(card("lake", ""), "5 dead letters")
	p.awaitText("#events", "risk")
	p.awaitText("#appliances", "Tickets are written")
	lake.Answer(0)
	p.click(`[aria-label="Pause sink archive"]`)
	p.awaitText(card("archive", ""), "Paused")
	p.await("charts are drawn", element(card("chat", ".chart .line"))+"?.getAttribute('d')")

	for _, size := range []struct {
		name          string
		width, height int64
	}{{"desktop", 1440, 900}, {"tablet", 900, 900}, {"phone", 400, 780}} {
		for _, scheme := range []string{"light", "dark"} {
			name := size.name + "-" + scheme
			p.prefer(scheme)
			p.resize(size.width, size.height)
			wide := eval[int](p, "document.documentElement.scrollWidth")
			assert.True(t, wide <= int(size.width), name, "the page", wide, "px wide")
			rules.check(p, name)
			p.picture(name, true)
			p.click(`[aria-label="View the dead letters of sink lake"]`)
			p.awaitText("#dead-letters", "View")
			rules.check(p, name+", dead letters")
			p.picture(name+"-dead-letters", false)
			p.click("#dead-letters [data-part=view]")
			p.awaitText("#json", "specversion")
			rules.check(p, name+", a dead letter's JSON")
			p.picture(name+"-json", false)
			p.press("\x1b")
			p.click("#dead-letters [data-part=drop-all]")
			p.awaitText("#confirm", "This cannot be undone")
			rules.check(p, name+", confirming a drop")
			p.picture(name+"-confirm", false)
			p.press("\x1b", "\x1b")
			p.await("all dialogs are closed", "!document.querySelector('dialog[open]')")
		}
	}
}

func TestManySinksHaveARowEach(t *testing.T) {
	a, applianceURL := startAppliance(t)
	a.AddBacklog(30, time.Hour)
	soc := loopback.Receive(t)
	soc.Answer(http.StatusUnauthorized)
	sinks := webhook("soc", soc.URL)
	for _, name := range []string{"archive", "chat", "lake", "pager", "siem"} {
		sinks += webhook(name, loopback.Receive(t).URL)
	}
	bridgeURL, _ := startBridge(t, settings{appliances: hq(applianceURL), sinks: sinks})
	rules := loadAxe(t)
	p := openTab(t, withHistory(t, bridgeURL))
	p.awaitText(card("soc", ".state"), "Halted")
	p.await("charts are drawn", element(card("chat", ".chart .line"))+"?.getAttribute('d')")
	p.run("a row has the state, the lag and the last delivery", func(*testing.T) {
		p.awaitText(card("chat", ""), "Running")
		p.awaitText(card("chat", ""), "Last delivery")
		p.await("it has no more", "!"+element(card("chat", "[data-part=delivered]"))+".checkVisibility()")
	})
	for _, width := range []int64{1440, 900, 400} {
		for _, scheme := range []string{"light", "dark"} {
			name := fmt.Sprintf("many-%d-%s", width, scheme)
			p.prefer(scheme)
			p.resize(width, 900)
			assert.True(t, eval[int](p, "document.documentElement.scrollWidth") <= int(width), name, "the page is too wide")
			rules.check(p, name)
			p.picture(name, true)
		}
	}
	p.run("a sink that failed has its buttons on a phone", func(*testing.T) {
		p.awaitShown(card("soc", "[data-part=retry]"))
	})
	p.resize(1440, 900)
	p.run("a row unfolds into a card", func(*testing.T) {
		p.click(`[aria-label="More about sink chat"]`)
		p.await("it is a card", element(card("chat", "[data-part=delivered]"))+".checkVisibility()")
		p.click(`[aria-label="Less about sink chat"]`)
	})
}
