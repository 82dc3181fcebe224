package poller_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/poller"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// contextServer is an appliance with one detection a page and a few devices, whose ids exceed
// 2^53. Each path can be refused.
type contextServer struct {
	mu         sync.Mutex
	detections []string       // objects, by ascending mod_time
	refused    map[string]int // the status, by path
	requests   map[string]int
}

const (
	laptop  = 9007199254740995
	printer = 9007199254740997
	deleted = 9007199254740999
)

var devices = map[int64]string{
	laptop:  `"display_name":"laptop-7","role":"pc","critical":true,"on_watchlist":false`,
	printer: `"display_name":"printer","role":"printer","custom_criticality":"critical"`,
}

func (s *contextServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/api/v1")
	s.requests[path]++
	w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
	if status := s.refused[path]; status != 0 {
		w.WriteHeader(status)
		return
	}
	switch path {
	case "/service/version":
		fmt.Fprint(w, `{"version":"9.4.0.0"}`)
	case "/detections/search":
		var search struct {
			ModTime int64 `json:"mod_time"`
			Offset  int
		}
		json.NewDecoder(r.Body).Decode(&search)
		var shown []string
		for _, d := range s.detections {
			var of struct {
				ModTime int64 `json:"mod_time"`
			}
			json.Unmarshal([]byte(d), &of)
			if of.ModTime > search.ModTime {
				shown = append(shown, d)
			}
		}
		fmt.Fprintf(w, "[%s]", strings.Join(shown[min(search.Offset, len(shown)):], ","))
	case "/devices/search":
		var search struct{ Filter struct{ Operand []int64 } }
		json.NewDecoder(r.Body).Decode(&search)
		var shown []string
		for _, id := range search.Filter.Operand {
			if d := devices[id]; d != "" {
				shown = append(shown, fmt.Sprintf(`{"id":%d,%s}`, id, d))
			}
		}
		fmt.Fprintf(w, "[%s]", strings.Join(shown, ","))
	case "/tags":
		fmt.Fprint(w, `[{"id":9007199254740993,"name":"crown jewels"},{"id":2,"name":"deleted meanwhile"}]`)
	case "/tags/9007199254740993/devices":
		fmt.Fprintf(w, `[{"id":%d}]`, laptop)
	case "/devicegroups":
		fmt.Fprint(w, `[{"id":5,"name":"Finance"}]`)
	case "/devicegroups/5/devices":
		fmt.Fprintf(w, `[{"id":%d},{"id":%d}]`, laptop, printer)
	default:
		if strings.HasSuffix(path, "/software") {
			fmt.Fprint(w, `[{"name":"Windows","version":"11"},{"name":"Firefox","version":null}]`)
			return
		}
		http.NotFound(w, r)
	}
}

// contextWorld is such an appliance with its two sources and a state that can be reopened.
type contextWorld struct {
	t       *testing.T
	server  *contextServer
	client  *appliance.Client
	path    string
	store   *checkpoint.Store
	now     time.Time
	options poller.ContextOptions

	fail       bool // commits fail after they were written
	earlier    bool // versions lack their context, and the source does not remember it
	detections *poller.Detections
	contexts   *poller.Contexts
}

func newContextWorld(t *testing.T, o poller.ContextOptions) *contextWorld {
	w := &contextWorld{
		t: t, options: o, path: filepath.Join(t.TempDir(), "state"), now: time.Now(),
		server: &contextServer{refused: map[string]int{}, requests: map[string]int{}},
	}
	listener := httptest.NewServer(w.server)
	t.Cleanup(listener.Close)
	var err error
	w.client, err = appliance.New(appliance.Options{URL: listener.URL, Key: func() (string, error) { return "key", nil }})
	require.NoError(t, err)
	t.Cleanup(w.client.Close)
	w.open()
	t.Cleanup(func() { w.store.Close() })
	return w
}

// open opens the state, with new sources.
func (w *contextWorld) open() {
	var err error
	w.store, err = checkpoint.Open(w.path, checkpoint.Options{})
	require.NoError(w.t, err)
	o := poller.StreamOptions{
		Appliance: "hq", URL: "http://sensor.example", PageSize: 100,
		Start: func(time.Time) time.Time { return time.Time{} }, Now: func() time.Time { return w.now },
		Log: slog.New(slog.DiscardHandler), Metrics: poller.NewMetrics(prometheus.NewRegistry()),
	}
	of := w.options
	of.StreamOptions = o
	w.contexts = poller.NewContexts(w.client, failing{w}, of)
	contexts := w.contexts
	if w.earlier {
		contexts = nil
	}
	w.detections = poller.NewDetections(w.client, failing{w}, poller.DetectionsOptions{
		StreamOptions: o, Overlap: time.Minute, ForgetAfter: 90 * 24 * time.Hour, Contexts: contexts,
	})
}

// crash ends the process after the last commit.
func (w *contextWorld) crash() {
	require.NoError(w.t, w.store.Close())
	w.open()
}

// failing is the state of a world, whose commits are written but not acknowledged if it fails.
type failing struct{ w *contextWorld }

var errCrash = errors.New("the process crashed")

func (f failing) Position(ctx context.Context, s checkpoint.Source) ([]byte, error) {
	return f.w.store.Position(ctx, s)
}
func (f failing) Recall(ctx context.Context, s checkpoint.Source, keys []string) ([][]byte, error) {
	return f.w.store.Recall(ctx, s, keys)
}
func (f failing) Remembered(ctx context.Context, s checkpoint.Source, after string, limit int) ([]checkpoint.Entry, error) {
	return f.w.store.Remembered(ctx, s, after, limit)
}
func (f failing) Commit(ctx context.Context, c checkpoint.Commit) error {
	err := f.w.store.Commit(ctx, c)
	if f.w.fail {
		return errCrash
	}
	return err
}

// sees lets the appliance show a new version of a detection with some devices.
func (w *contextWorld) sees(id int64, status string, devices ...int64) {
	w.t.Helper()
	w.server.mu.Lock()
	var participants []string
	for i, device := range devices {
		participants = append(participants, fmt.Sprintf(`{"id":%d,"object_type":"device","object_id":%d}`, i+1, device))
	}
	w.server.detections = slices.DeleteFunc(w.server.detections, func(d string) bool { return strings.HasPrefix(d, fmt.Sprintf(`{"id":%d,`, id)) })
	w.now = w.now.Add(time.Millisecond)
	w.server.detections = append(w.server.detections, fmt.Sprintf(`{"id":%d,"mod_time":%d,"create_time":%d,"title":"Beacon","status":%q,"risk_score":85,"participants":[%s]}`,
		id, w.now.UnixMilli()-60_000, 1_750_000_000_000, status, strings.Join(participants, ",")))
	w.server.mu.Unlock()
	w.read()
}

// seesEarlier does the same with an earlier release, which remembered beside a version what it lacks.
func (w *contextWorld) seesEarlier(id int64, status string, devices ...int64) {
	w.t.Helper()
	w.sees(id, status, devices...)
	source := w.detections.Source()
	position := require.Value(w.store.Position(w.t.Context(), source))(w.t)
	modTime := w.now.UnixMilli() - 60_000
	mark := map[string]any{"mod_time": modTime, "events": 1, "devices": devices, "since": w.now, "known": fmt.Sprintf("%.8x", sha256.Sum256([]byte(`{"devices":[]}`)))}
	require.NoError(w.t, w.store.Commit(w.t.Context(), checkpoint.Commit{Source: source, Expect: position, Position: position, Remember: []checkpoint.Entry{
		{Key: fmt.Sprintf("?%d", id), Value: require.Value(json.Marshal(mark))(w.t), At: modTime},
	}}))
}

func (w *contextWorld) read() {
	w.t.Helper()
	_, err := w.detections.Poll(w.t.Context())
	require.NoError(w.t, err)
}

// settle polls contexts until there is nothing more to do.
func (w *contextWorld) settle() error {
	for range 20 {
		if next, err := w.contexts.Poll(w.t.Context()); err != nil || next == poller.Idle {
			return err
		}
	}
	return errors.New("polls find more for ever")
}

// events returns what is in the journal, in a short form.
func (w *contextWorld) events() (all []string) {
	records, err := w.store.Read(w.t.Context(), 0, checkpoint.Batch{})
	require.NoError(w.t, err)
	for _, r := range records {
		var data struct {
			Detection struct{ Title, Status string }
			Context   *struct {
				Devices []poller.ContextDevice
				Pending bool
			}
		}
		require.NoError(w.t, json.Unmarshal(r.Event.Data(), &data))
		require.Equal(w.t, r.Event.PartitionKey, r.Event.Subject)
		text := r.Event.Action() + " " + r.Event.Subject + " " + data.Detection.Status
		if data.Context != nil {
			for _, d := range data.Context.Devices {
				text += fmt.Sprintf(" %s critical=%v tags=%q groups=%q software=%q", d.Name, d.Critical, d.Tags, d.Groups, d.Software)
			}
			if data.Context.Pending {
				text += " pending"
			}
		}
		all = append(all, text)
	}
	return all
}

func TestContextsFollowTheVersionsThatLackThem(t *testing.T) {
	const (
		whole        = ` laptop-7 critical=true tags=["crown jewels"] groups=["Finance"] software=[]`
		wholePrinter = ` printer critical=true tags=[] groups=["Finance"] software=[]`
	)
	tests := []struct {
		name    string
		options poller.ContextOptions
		do      func(t *testing.T, w *contextWorld)
		want    []string
	}{
		{"a version whose devices are not known is followed by its context", poller.ContextOptions{Tags: true, Groups: true}, func(t *testing.T, w *contextWorld) {
			w.sees(9007199254740993, "new", laptop, printer)
			require.NoError(t, w.settle())
		}, []string{"created 9007199254740993 new", "context 9007199254740993 new" + whole + wholePrinter}},
		{"a later version has the context that is known", poller.ContextOptions{Tags: true, Groups: true}, func(t *testing.T, w *contextWorld) {
			w.sees(1, "new", laptop)
			require.NoError(t, w.settle())
			w.sees(1, "closed", laptop)
			w.sees(2, "new", laptop)
			require.NoError(t, w.settle())
		}, []string{"created 1 new", "context 1 new" + whole, "updated 1 closed" + whole, "created 2 new" + whole}},
		{"a version that is not the last one any more has no context of its own", poller.ContextOptions{Tags: true, Groups: true}, func(t *testing.T, w *contextWorld) {
			w.sees(1, "new", laptop)
			w.sees(1, "closed", laptop)
			require.NoError(t, w.settle())
		}, []string{"created 1 new", "updated 1 closed", "context 1 closed" + whole}},
		{"another version with the same mod_time has another context", poller.ContextOptions{Tags: true, Groups: true}, func(t *testing.T, w *contextWorld) {
			w.sees(1, "new", laptop)
			require.NoError(t, w.settle())
			w.now = w.now.Add(-time.Millisecond)
			w.sees(1, "closed", laptop, printer)
			require.NoError(t, w.settle())
		}, []string{"created 1 new", "context 1 new" + whole, "updated 1 closed" + whole, "context 1 closed" + whole + wholePrinter}},
		{"a detection without devices has none", poller.ContextOptions{Tags: true}, func(t *testing.T, w *contextWorld) {
			w.sees(1, "new")
			require.NoError(t, w.settle())
		}, []string{"created 1 new"}},
		{"a device that the appliance does not have adds nothing", poller.ContextOptions{Tags: true}, func(t *testing.T, w *contextWorld) {
			w.sees(1, "new", deleted)
			require.NoError(t, w.settle())
		}, []string{"created 1 new"}},
		{"software is read of each device", poller.ContextOptions{Software: true}, func(t *testing.T, w *contextWorld) {
			w.sees(1, "new", laptop)
			require.NoError(t, w.settle())
		}, []string{"created 1 new", `context 1 new laptop-7 critical=true tags=[] groups=[] software=["Windows 11" "Firefox"]`}},
		{"a refused kind of sets is off, and the rest goes on", poller.ContextOptions{Tags: true, Groups: true}, func(t *testing.T, w *contextWorld) {
			w.server.refused["/tags"] = http.StatusForbidden
			w.sees(1, "new", laptop)
			require.NoError(t, w.settle())
		}, []string{"created 1 new", `context 1 new laptop-7 critical=true tags=[] groups=["Finance"] software=[]`}},
		{"a failing appliance delays the context only", poller.ContextOptions{Tags: true, Groups: true}, func(t *testing.T, w *contextWorld) {
			w.server.refused["/devices/search"] = http.StatusInternalServerError
			w.sees(1, "new", laptop)
			assert.Error(t, w.settle())
			w.sees(2, "new", laptop)
			delete(w.server.refused, "/devices/search")
			require.NoError(t, w.settle())
		}, []string{"created 1 new", "created 2 new", "context 1 new" + whole, "context 2 new" + whole}},
		{"with a wait, the version says that its context is pending", poller.ContextOptions{Tags: true, Groups: true, Wait: time.Minute}, func(t *testing.T, w *contextWorld) {
			w.sees(1, "new", laptop)
			require.NoError(t, w.settle())
		}, []string{"created 1 new pending", "context 1 new" + whole}},
		{"after the wait, the context has what is known", poller.ContextOptions{Wait: time.Minute}, func(t *testing.T, w *contextWorld) {
			w.server.refused["/devices/search"] = http.StatusInternalServerError
			w.sees(1, "new", laptop)
			assert.Error(t, w.settle())
			w.now = w.now.Add(time.Minute)
			assert.Error(t, w.settle())
		}, []string{"created 1 new pending", "context 1 new"}},
		{"nothing waits for what the appliance refuses", poller.ContextOptions{Wait: time.Hour}, func(t *testing.T, w *contextWorld) {
			w.server.refused["/devices/search"] = http.StatusForbidden
			w.sees(1, "new", laptop)
			assert.Error(t, w.settle())
			w.sees(2, "new", laptop)
		}, []string{"created 1 new pending", "context 1 new", "created 2 new"}},
		{"what is read again and has not changed gives no event", poller.ContextOptions{Tags: true, Groups: true}, func(t *testing.T, w *contextWorld) {
			w.sees(1, "new", laptop)
			require.NoError(t, w.settle())
			w.now = w.now.Add(2 * time.Hour)
			w.sees(1, "closed", laptop)
			before := w.server.requests["/devices/search"]
			require.NoError(t, w.settle())
			assert.Equal(t, w.server.requests["/devices/search"], before+1)
		}, []string{"created 1 new", "context 1 new" + whole, "updated 1 closed" + whole}},
		{"a crash between the version and its context loses none", poller.ContextOptions{Tags: true, Groups: true}, func(t *testing.T, w *contextWorld) {
			w.sees(1, "new", laptop)
			w.crash()
			w.read()
			require.NoError(t, w.settle())
		}, []string{"created 1 new", "context 1 new" + whole}},
		{"a crash after a context was written doubles none", poller.ContextOptions{Tags: true, Groups: true}, func(t *testing.T, w *contextWorld) {
			w.sees(1, "new", laptop)
			w.fail = true
			assert.Error(t, w.settle())
			w.fail = false
			w.crash()
			w.read()
			require.NoError(t, w.settle())
			w.sees(2, "new", laptop) // the device is remembered
			require.NoError(t, w.settle())
		}, []string{"created 1 new", "context 1 new" + whole, "created 2 new" + whole}},
		{"what an earlier release remembered that a version lacks follows once", poller.ContextOptions{Tags: true, Groups: true}, func(t *testing.T, w *contextWorld) {
			w.earlier = true
			w.crash()
			for id := range int64(3) {
				w.seesEarlier(id+1, "new", laptop)
			}
			w.earlier = false
			w.crash()
			w.sees(2, "closed", laptop)
			require.NoError(t, w.settle())
			for range 2 {
				w.crash()
				w.read()
				require.NoError(t, w.settle())
			}
		}, []string{"created 1 new", "created 2 new", "created 3 new", "updated 2 closed", "context 1 new" + whole, "context 2 closed" + whole, "context 3 new" + whole}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.options.Every, test.options.ForgetAfter = time.Hour, 90*24*time.Hour
			w := newContextWorld(t, test.options)
			test.do(t, w)
			assert.EqualSlices(t, w.events(), test.want)
		})
	}
}

func TestManyDetectionsGetTheirContexts(t *testing.T) {
	w := newContextWorld(t, poller.ContextOptions{Every: time.Hour, ForgetAfter: 90 * 24 * time.Hour})
	var all []string
	const detections = 2500
	for id := range detections {
		all = append(all, fmt.Sprintf(`{"id":%d,"mod_time":%d,"status":"new","participants":[{"object_type":"device","object_id":%d}]}`, id+1, w.now.UnixMilli()-60_000+int64(id), laptop))
	}
	for page := range slices.Chunk(all, 100) {
		w.server.detections = page
		w.read()
	}
	require.NoError(t, w.settle())
	var contexts int
	for _, event := range w.events() {
		if strings.HasPrefix(event, "context") {
			contexts++
		}
	}
	require.Equal(t, contexts, detections)
	require.Equal(t, w.server.requests["/devices/search"], 1)

	w.server.detections = nil
	w.sees(detections+1, "new", printer)
	w.crash()
	w.read()
	require.NoError(t, w.settle())
	require.True(t, strings.HasPrefix(w.events()[2*detections+1], "context 2501 new printer"), "no context after a restart with many that were delivered")
}

var _ poller.FollowUpStore = (*checkpoint.Store)(nil)
