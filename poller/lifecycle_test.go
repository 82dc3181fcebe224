package poller_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/poller"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// lifecycleWorld polls a stand-in appliance over HTTP into a state file: its detections, and which
// of them are no longer shown.
type lifecycleWorld struct {
	lifecycleTB
	path    string
	now     atomic.Int64 // milliseconds
	standin *standin.Appliance
	served  atomic.Pointer[http.Handler]
	client  *appliance.Client
	options poller.LifecycleOptions

	store      *checkpoint.Store
	detections *poller.Detections
	lifecycle  *poller.Lifecycle

	replaced bool
	// step is called before each use of the state, and after each commit; an error fails it.
	step func() error
}

// lifecycleTB is a test, or a run of a property.
type lifecycleTB interface {
	require.T
	Errorf(format string, args ...any)
	Cleanup(func())
}

func newLifecycleWorld(t lifecycleTB, dir string) *lifecycleWorld {
	w := &lifecycleWorld{lifecycleTB: t, path: filepath.Join(dir, "state.db"), step: func() error { return nil }}
	w.now.Store(1_750_000_000_000)
	w.standin = w.newStandIn(1)
	w.serve(w.standin)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { (*w.served.Load()).ServeHTTP(rw, r) }))
	t.Cleanup(server.Close)
	client, err := appliance.New(appliance.Options{
		URL: server.URL, Key: func() (string, error) { return standin.DefaultAPIKey, nil }, Now: w.time,
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	w.client = client
	w.options = poller.LifecycleOptions{
		DetectionsOptions: poller.DetectionsOptions{
			StreamOptions: poller.StreamOptions{
				Appliance: "hq", URL: server.URL, PageSize: 7,
				Start: func(time.Time) time.Time { return time.Time{} },
				Now:   w.time, Log: slog.New(slog.DiscardHandler), Metrics: poller.NewMetrics(prometheus.NewRegistry()),
			},
			Overlap: 2 * time.Minute, ReconcileEvery: time.Hour, ReconcileBack: 1000 * time.Hour, ForgetAfter: 2000 * time.Hour,
		},
		Report:   []string{"hidden", "gone", "shown"},
		Replaced: func(context.Context) (bool, error) { return w.replaced, nil },
	}
	w.open()
	t.Cleanup(func() { w.store.Close() })
	return w
}

// newStandIn returns an appliance that knows the types a, b and c.
func (w *lifecycleWorld) newStandIn(seed uint64) *standin.Appliance {
	made := standin.New(standin.Options{Seed: seed, Size: 1000, Now: w.time})
	for _, kind := range []string{"a", "b", "c"} {
		w.callAt(made, "POST", "/detections/formats", fmt.Sprintf(`{"type":%q,"display_name":%q}`, kind, kind))
	}
	return made
}

// serve lets another appliance answer.
func (w *lifecycleWorld) serve(h http.Handler) { w.served.Store(&h) }

func (w *lifecycleWorld) time() time.Time { return time.UnixMilli(w.now.Load()) }

func (w *lifecycleWorld) pass(d time.Duration) { w.now.Add(d.Milliseconds()) }

// open opens the state with new sources, like a new process.
func (w *lifecycleWorld) open() {
	store, err := checkpoint.Open(w.path, checkpoint.Options{})
	require.NoError(w, err)
	w.store = store
	w.detections = poller.NewDetections(w.client, steps{w}, w.options.DetectionsOptions)
	w.lifecycle = poller.NewLifecycle(w.client, steps{w}, w.options)
}

func (w *lifecycleWorld) restart() {
	require.NoError(w, w.store.Close())
	w.open()
}

// steps is the state of a world, whose uses may fail.
type steps struct{ w *lifecycleWorld }

func (s steps) Position(ctx context.Context, of checkpoint.Source) ([]byte, error) {
	if err := s.w.step(); err != nil {
		return nil, err
	}
	return s.w.store.Position(ctx, of)
}

func (s steps) Recall(ctx context.Context, of checkpoint.Source, keys []string) ([][]byte, error) {
	if err := s.w.step(); err != nil {
		return nil, err
	}
	return s.w.store.Recall(ctx, of, keys)
}

func (s steps) Remembered(ctx context.Context, of checkpoint.Source, after string, limit int) ([]checkpoint.Entry, error) {
	if err := s.w.step(); err != nil {
		return nil, err
	}
	return s.w.store.Remembered(ctx, of, after, limit)
}

func (s steps) Commit(ctx context.Context, c checkpoint.Commit) error {
	if err := s.w.step(); err != nil {
		return err
	}
	if err := s.w.store.Commit(ctx, c); err != nil {
		return err
	}
	return s.w.step()
}

// add adds a detection of a type, which is one of security.
func (w *lifecycleWorld) add(kind string) int64 {
	w.pass(time.Second)
	d := w.standin.Generate()
	d.Type, d.Categories, d.Status, d.Resolution = kind, []string{"sec", "sec.recon"}, standin.Null, standin.Null
	return w.standin.Add(d)[0].ID
}

// update gives detections a new version with a status.
func (w *lifecycleWorld) update(status standin.Text, ids ...int64) {
	w.pass(time.Second)
	require.NoError(w, w.standin.Update(func(d *standin.Detection) {
		d.Status, d.Resolution = status, standin.Null
		d.Title += "."
	}, ids...))
}

// call sends a request to the stand-in past the network and its hazards.
func (w *lifecycleWorld) call(method, path, body string) *httptest.ResponseRecorder {
	return w.callAt(w.standin, method, path, body)
}

func (w *lifecycleWorld) callAt(at *standin.Appliance, method, path, body string) *httptest.ResponseRecorder {
	hazards := at.Hazards()
	at.SetHazards(standin.Hazards{})
	defer at.SetHazards(hazards)
	r := httptest.NewRequest(method, "/api/v1"+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Service apikey="+standin.DefaultAPIKey)
	r.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	at.ServeHTTP(answer, r)
	require.True(w, answer.Code < 300, method, path, "answers", answer.Code, answer.Body)
	return answer
}

const rulesPath = "/detections/rules/hiding"

// rule creates a hiding rule, with fields that replace those of one for everything, and returns
// its path.
func (w *lifecycleWorld) rule(fields string) string {
	body := map[string]any{"offender": "Any", "victim": "Any", "expiration": nil, "detection_type": "all_security", "description": "Nightly copy"}
	require.NoError(w, json.Unmarshal([]byte("{"+fields+"}"), &body))
	whole, err := json.Marshal(body)
	require.NoError(w, err)
	return strings.TrimPrefix(w.call("POST", rulesPath, string(whole)).Header().Get("Location"), "/api/v1")
}

// read polls the detections until nothing is new.
func (w *lifecycleWorld) read() {
	w.Helper()
	for range 200 {
		next, err := w.detections.Poll(context.Background())
		require.NoError(w, err)
		if next == poller.Idle {
			return
		}
	}
	w.Fatalf("the detections do not end")
}

// look polls when a look is due.
func (w *lifecycleWorld) look() error {
	w.pass(w.options.ReconcileEvery)
	_, err := w.lifecycle.Poll(context.Background())
	return err
}

func (w *lifecycleWorld) mustLook() {
	w.Helper()
	require.NoError(w, w.look())
}

// journal returns all events.
func (w *lifecycleWorld) journal() (events []transform.Event) {
	for after := uint64(0); ; {
		records, err := w.store.Read(context.Background(), after, checkpoint.Batch{})
		require.NoError(w, err)
		if len(records) == 0 {
			return events
		}
		for _, r := range records {
			events = append(events, r.Event)
			after = r.Seq
		}
	}
}

// visibilityEvent is the data of an event of a Lifecycle.
type visibilityEvent struct {
	Detection struct {
		ID      int64  `json:"id"`
		ModTime int64  `json:"mod_time"`
		Title   string `json:"title"`
		Status  string `json:"status"`
	} `json:"detection"`
	Visibility struct {
		State string `json:"state"`
		Rules []struct {
			ID          int64  `json:"id"`
			Description string `json:"description"`
			Author      string `json:"author"`
		} `json:"rules"`
		Explanation string `json:"explanation"`
	} `json:"visibility"`
}

func dataOf(t require.T, e transform.Event) (data visibilityEvent) {
	require.NoError(t, json.Unmarshal(e.Data(), &data))
	return data
}

// followUps returns what was reported, such as "hidden 7: no longer shown: …".
func (w *lifecycleWorld) followUps() (all []string) {
	for _, e := range w.journal() {
		if e.IsFollowUp() {
			data := dataOf(w, e)
			all = append(all, fmt.Sprintf("%s %s: %s", data.Visibility.State, e.Subject, data.Visibility.Explanation))
		}
	}
	return all
}

// ids gives the ids in texts the names that they have in order.
func named(texts []string, ids ...int64) []string {
	named := slices.Clone(texts)
	for i := range named {
		for j, id := range ids {
			named[i] = strings.Replace(named[i], fmt.Sprintf(" %d:", id), fmt.Sprintf(" %c:", 'a'+j), 1)
		}
	}
	return named
}

func TestDetectionsThatAreNoLongerShownAreReported(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *lifecycleWorld, a, b int64) // after both were read
		want   []string
	}{
		"none": {change: func(*lifecycleWorld, int64, int64) {}},
		"one that a rule hides": {
			change: func(w *lifecycleWorld, _, _ int64) { w.rule(`"detection_type":"a"`) },
			want:   []string{"hidden a: no longer shown: hidden by rule 1"},
		},
		"one that a rule for all of security hides": {
			change: func(w *lifecycleWorld, _, b int64) {
				w.update("closed", b)
				w.read()
				w.rule("")
			},
			want: []string{"hidden a: no longer shown: hidden by rule 1"},
		},
		"one that a rule may hide, since not everything is known of it": {
			change: func(w *lifecycleWorld, a, _ int64) {
				w.rule(`"detection_type":"a","offender":{"object_type":"ipaddr","object_value":"0.0.0.0/0"}`)
				w.standin.Hide(a)
			},
			want: []string{"hidden a: no longer shown: may be hidden by rule 1"},
		},
		"one that is gone, although there are rules for others": {
			change: func(w *lifecycleWorld, a, _ int64) {
				w.rule(`"detection_type":"c"`)
				w.call("PATCH", w.rule(`"detection_type":"a"`), `{"enabled":false}`)
				w.rule(fmt.Sprintf(`"detection_type":"a","expiration":%d`, w.now.Load()+1))
				w.standin.Hide(a)
			},
			want: []string{"gone a: no longer shown: the appliance has no detection with this id"},
		},
		"one that is hidden or gone, if the key may not read the rules": {
			change: func(w *lifecycleWorld, a, _ int64) {
				w.standin.Hide(a)
				w.standin.SetHazards(standin.Hazards{
					Refusal: standin.RefusedForbidden, Only: func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, rulesPath) },
				})
			},
			want: []string{"hidden a: no longer shown: the key may not read the hiding rules"},
		},
		"not one that is closed": {
			change: func(w *lifecycleWorld, a, _ int64) {
				w.update("closed", a)
				w.read()
				w.standin.Hide(a)
			},
		},
		"one that was hidden after a version that was not read": {
			change: func(w *lifecycleWorld, a, _ int64) {
				w.update("in_progress", a)
				w.rule(`"detection_type":"a"`)
			},
			want: []string{"hidden a: no longer shown: hidden by rule 1"},
		},
		"one that is shown again": {
			change: func(w *lifecycleWorld, _, _ int64) {
				rule := w.rule(`"detection_type":"a"`)
				w.mustLook()
				w.call("DELETE", rule, "")
			},
			want: []string{"hidden a: no longer shown: hidden by rule 1", "shown a: shown again"},
		},
		"one of which a newer version was read, at once": {
			change: func(w *lifecycleWorld, a, _ int64) {
				rule := w.rule(`"detection_type":"a"`)
				w.mustLook()
				w.call("DELETE", rule, "")
				w.update("new", a)
				w.read()
				w.standin.SetHazards(standin.Hazards{ServerError: 1}) // no look
				_, err := w.lifecycle.Poll(context.Background())
				require.NoError(w, err)
				w.standin.SetHazards(standin.Hazards{})
			},
			want: []string{"hidden a: no longer shown: hidden by rule 1", "shown a: a newer version was read"},
		},
		"one that is shown again, but closed": {
			change: func(w *lifecycleWorld, a, _ int64) {
				rule := w.rule(`"detection_type":"a"`)
				w.mustLook()
				w.call("DELETE", rule, "")
				w.update("closed", a)
				w.mustLook()
				w.read()
			},
			want: []string{"hidden a: no longer shown: hidden by rule 1"},
		},
		"one that changed while it was hidden": {
			change: func(w *lifecycleWorld, a, b int64) {
				rule := w.rule(`"detection_type":"a"`)
				w.mustLook()
				w.update("in_progress", a)
				w.pass(100 * time.Hour)
				w.update("new", b)
				w.read()
				w.call("DELETE", rule, "")
			},
			want: []string{"hidden a: no longer shown: hidden by rule 1", "shown a: shown again"},
		},
		"again and again": {
			change: func(w *lifecycleWorld, a, _ int64) {
				for range 2 {
					rule := w.rule(`"detection_type":"a"`)
					w.mustLook()
					w.mustLook()
					w.call("DELETE", rule, "")
					w.mustLook()
				}
				w.standin.Hide(a)
			},
			want: []string{
				"hidden a: no longer shown: hidden by rule 1", "shown a: shown again",
				"hidden a: no longer shown: hidden by rule 2", "shown a: shown again", "gone a: no longer shown: the appliance has no detection with this id",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLifecycleWorld(t, t.TempDir())
			a, b := w.add("a"), w.add("b")
			w.read()
			w.mustLook()
			c.change(w, a, b)
			w.mustLook()
			w.mustLook()
			w.restart()
			w.mustLook()
			assert.EqualSlices(t, named(w.followUps(), a, b), c.want, "reported")
			w.checkIDs()
		})
	}
}

// checkIDs fails the test if two events have one id.
func (w *lifecycleWorld) checkIDs() {
	w.Helper()
	ids := make(map[string]bool)
	for _, e := range w.journal() {
		require.True(w, !ids[e.ID], "two events have the id", e.ID)
		ids[e.ID] = true
	}
}

func TestAnEventOfAHiddenDetectionHasItsLastVersionAndTheRule(t *testing.T) {
	w := newLifecycleWorld(t, t.TempDir())
	const id = 1<<53 + 1
	d := w.standin.Generate()
	d.ID, d.Type, d.Title, d.Status = id, "a", "Rare host", "in_progress"
	w.standin.Add(d)
	w.add("b")
	w.read()
	w.rule(`"detection_type":"a"`)
	w.mustLook()
	events := w.journal()
	e := events[len(events)-1]
	data := dataOf(t, e)
	assert.True(t, data.Detection.ID == id && data.Detection.Title == "Rare host" && data.Detection.Status == "in_progress", "the detection is", data.Detection)
	assert.Equal(t, e.Type, transform.TypePrefix+"detection.hidden")
	assert.Equal(t, e.ID, fmt.Sprintf("%d-hidden-%d-1", int64(id), data.Detection.ModTime))
	assert.True(t, e.PartitionKey == events[0].PartitionKey && e.Source == events[0].Source, e.PartitionKey, "of", e.Source)
	require.Equal(t, len(data.Visibility.Rules), 1, "rules")
	rule := data.Visibility.Rules[0]
	assert.True(t, rule.ID == 1 && rule.Description == "Nightly copy" && rule.Author == "api", "the rule is", rule)
}

func TestOnlyTheStatesToReportBecomeEvents(t *testing.T) {
	w := newLifecycleWorld(t, t.TempDir())
	a, b := w.add("a"), w.add("b")
	w.add("c")
	w.options.Report = []string{"gone"}
	w.restart()
	w.read()
	rule := w.rule(`"detection_type":"a"`)
	w.standin.Hide(b)
	w.mustLook()
	w.call("DELETE", rule, "")
	w.mustLook()
	assert.EqualSlices(t, named(w.followUps(), a, b), []string{"gone b: no longer shown: the appliance has no detection with this id"})
}

func TestARestartNeitherRepeatsNorSkipsALook(t *testing.T) {
	w := newLifecycleWorld(t, t.TempDir())
	a, b := w.add("a"), w.add("b")
	w.read()
	searches := func() int { return w.standin.Requests()["POST /detections/search"] }
	poll := func() {
		w.Helper()
		_, err := w.lifecycle.Poll(t.Context())
		require.NoError(t, err)
	}
	poll()
	looked := searches()
	w.standin.Hide(a)
	w.pass(w.options.ReconcileEvery - time.Second)
	w.restart()
	poll()
	assert.Equal(t, searches(), looked, "searches before the next look")
	w.pass(time.Second)
	poll()
	assert.True(t, searches() > looked, "the look is skipped")
	assert.Equal(t, len(w.followUps()), 1, "events about", a, "but none about", b)
}

// TestNothingElseIsTakenForAHiddenDetection is about what must never be reported, however often
// it is looked.
func TestNothingElseIsTakenForAHiddenDetection(t *testing.T) {
	only := func(suffix string, h standin.Hazards) standin.Hazards {
		h.Only = func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, suffix) }
		return h
	}
	hazards := func(h standin.Hazards) func(*lifecycleWorld, []int64) {
		return func(w *lifecycleWorld, _ []int64) { w.standin.SetHazards(h) }
	}
	for name, c := range map[string]struct {
		change func(w *lifecycleWorld, ids []int64)
		fails  string // what the last look says; empty: it succeeds
	}{
		"a reset appliance": {
			func(w *lifecycleWorld, _ []int64) { w.serve(w.newStandIn(2)) }, "the appliance shows none of the 15 known detections",
		},
		"a reset appliance that has new detections": {
			func(w *lifecycleWorld, _ []int64) {
				w.pass(time.Minute)
				reset := w.newStandIn(2)
				for i := range 20 {
					d := reset.Generate()
					d.ID = int64(1000 + i)
					reset.Add(d)
				}
				w.serve(reset)
			}, "the appliance shows none of the 15 known detections",
		},
		"a reset appliance that gives the ids to others": {
			func(w *lifecycleWorld, ids []int64) {
				w.pass(time.Minute)
				reset := w.newStandIn(2)
				for _, id := range ids[:3] {
					d := reset.Generate()
					d.ID = id
					reset.Add(d)
				}
				w.serve(reset)
			}, "another detection with the id",
		},
		"a reset appliance with a rule for some of them": {
			func(w *lifecycleWorld, _ []int64) {
				w.standin = w.newStandIn(2)
				w.rule(`"detection_type":"a"`)
				w.serve(w.standin)
			}, "the appliance shows none of the 15 known detections",
		},
		"another appliance": {
			func(w *lifecycleWorld, ids []int64) {
				w.replaced = true
				w.standin.Hide(ids[0])
			}, "seems to be another one",
		},
		"an outage":                                 {hazards(standin.Hazards{Reset: 1}), "connection reset"},
		"an appliance that is failing":              {hazards(standin.Hazards{ServerError: 1, ServerErrorStatus: 500}), "500"},
		"answers that end too early":                {hazards(standin.Hazards{CutBody: 1}), "POST"},
		"answers that are cut":                      {hazards(standin.Hazards{CutJSON: 1}), "the answer"},
		"a login page":                              {hazards(standin.Hazards{HTML: 1}), "HTML"},
		"pages that are short":                      {hazards(standin.Hazards{LimitCap: 2}), ""},
		"a refused key":                             {hazards(standin.Hazards{Refusal: standin.RefusedJSON}), "401"},
		"a key without the right to see detections": {hazards(standin.Hazards{Refusal: standin.RefusedForbidden}), "403"},
		"a hidden one, if requests for it are forbidden": {
			func(w *lifecycleWorld, ids []int64) {
				w.standin.Hide(ids[0])
				w.standin.SetHazards(only(fmt.Sprint("/detections/", ids[0]), standin.Hazards{Refusal: standin.RefusedForbidden}))
			}, "403",
		},
		"a hidden one, if requests for it fail": {
			func(w *lifecycleWorld, ids []int64) {
				w.standin.Hide(ids[0])
				w.standin.SetHazards(only(fmt.Sprint("/detections/", ids[0]), standin.Hazards{ServerError: 1, ServerErrorStatus: 503}))
			}, "503",
		},
		"a hidden one, if the rules cannot be read now": {
			func(w *lifecycleWorld, ids []int64) {
				w.standin.Hide(ids[0])
				w.standin.SetHazards(only(rulesPath, standin.Hazards{ServerError: 1, ServerErrorStatus: 503}))
			}, "503",
		},
		"whole seconds after an upgrade": {hazards(standin.Hazards{Upgrade: standin.UpgradeMillis}), ""},
		"a filter that changed": {
			func(w *lifecycleWorld, _ []int64) {
				w.options.Filter = json.RawMessage(`{"types":["a","b"]}`)
				w.restart()
			}, "",
		},
		"detections that change with every request": {
			func(w *lifecycleWorld, ids []int64) {
				w.standin.OnRequest(func(*http.Request) { w.update("in_progress", ids...) })
			}, "",
		},
		"answers that are empty now and then": {
			func(w *lifecycleWorld, _ []int64) {
				var requests atomic.Int64
				w.serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					if strings.HasSuffix(r.URL.Path, "/search") && requests.Add(1)%3 == 2 {
						rw.Header().Set("Date", w.time().UTC().Format(http.TimeFormat))
						rw.Header().Set("Content-Type", "application/json")
						fmt.Fprint(rw, "[]")
						return
					}
					w.standin.ServeHTTP(rw, r)
				}))
			}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLifecycleWorld(t, t.TempDir())
			var ids []int64
			for range 5 {
				ids = append(ids, w.add("a"), w.add("b"), w.add("c"))
			}
			w.read()
			w.mustLook()
			c.change(w, ids)
			var err error
			for range 4 {
				err = w.look()
			}
			assert.Empty(t, w.followUps(), "reported")
			if c.fails == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, c.fails)
			}
		})
	}
}

func TestMostAtOnceAreReportedIfAnotherLookMissesThemToo(t *testing.T) {
	begin := func(t *testing.T, open, closed int) (w *lifecycleWorld, ids []int64) {
		w = newLifecycleWorld(t, t.TempDir())
		for range open {
			ids = append(ids, w.add("a"))
		}
		for range closed {
			w.update("closed", w.add("b"))
		}
		w.read()
		w.mustLook()
		return w, ids
	}
	again := func(w *lifecycleWorld, after time.Duration) {
		w.Helper()
		w.pass(after)
		_, err := w.lifecycle.Poll(context.Background())
		require.NoError(w, err)
	}
	t.Run("after a minute", func(t *testing.T) {
		w, ids := begin(t, 12, 1)
		w.standin.Hide(ids...)
		w.mustLook()
		again(w, 59*time.Second)
		assert.Empty(t, w.followUps(), "reported within a minute")
		again(w, time.Second)
		assert.Equal(t, len(w.followUps()), 12, "reported")
	})
	t.Run("but not those that are back", func(t *testing.T) {
		w, ids := begin(t, 12, 1)
		w.standin.Hide(ids[0])
		rule := w.rule("")
		w.mustLook()
		w.call("DELETE", rule, "")
		again(w, time.Minute)
		assert.EqualSlices(t, named(w.followUps(), ids...), []string{"gone a: no longer shown: the appliance has no detection with this id"})
	})
	t.Run("but not those that only this one misses", func(t *testing.T) {
		w, ids := begin(t, 20, 1)
		w.standin.Hide(ids[:12]...)
		w.mustLook()
		w.standin.Hide(ids[12:15]...)
		again(w, time.Minute)
		assert.Equal(t, len(w.followUps()), 12, "reported")
		w.mustLook()
		assert.Equal(t, len(w.followUps()), 15, "reported in the end")
	})
	t.Run("also in another process", func(t *testing.T) {
		w, ids := begin(t, 12, 1)
		w.standin.Hide(ids...)
		w.mustLook()
		w.restart()
		again(w, time.Second)
		assert.Empty(t, w.followUps(), "reported by one look")
		again(w, time.Minute)
		assert.Equal(t, len(w.followUps()), 12, "reported")
	})
	t.Run("up to half of them at once", func(t *testing.T) {
		w, ids := begin(t, 24, 0)
		w.standin.Hide(ids[:12]...)
		w.mustLook()
		assert.Equal(t, len(w.followUps()), 12, "reported")
	})
	t.Run("ten of ten at once, if a closed one is shown", func(t *testing.T) {
		w, ids := begin(t, 10, 1)
		w.standin.Hide(ids...)
		w.mustLook()
		assert.Equal(t, len(w.followUps()), 10, "reported")
	})
	t.Run("all of them at once, if an older closed one is shown", func(t *testing.T) {
		w := newLifecycleWorld(t, t.TempDir())
		w.update("closed", w.add("c"))
		w.update("closed", w.add("a"), w.add("a"), w.add("a"))
		w.add("a")
		w.read()
		w.mustLook()
		w.rule(`"detection_type":"a","offender":{"object_type":"ipaddr","object_value":"0.0.0.0/0"}`)
		for _, v := range w.standin.Latest() {
			if v.Type == "a" {
				w.standin.Hide(v.ID)
			}
		}
		w.mustLook()
		assert.Equal(t, len(w.followUps()), 1, "reported")
	})
	t.Run("all of them, if a rule proves it", func(t *testing.T) {
		w, _ := begin(t, 2, 0)
		w.rule("")
		w.mustLook()
		assert.Empty(t, w.followUps(), "reported by one look")
		again(w, time.Minute)
		assert.Equal(t, len(w.followUps()), 2, "reported")
	})
}

func TestAReportIsRememberedAsLongAsTheDetection(t *testing.T) {
	w := newLifecycleWorld(t, t.TempDir())
	w.options.ForgetAfter = 30 * 24 * time.Hour
	w.restart()
	for range 150 { // commits forget fewer at once
		w.add("a")
	}
	w.update("closed", w.add("b"))
	w.read()
	w.rule(`"detection_type":"a"`)
	w.mustLook()
	w.mustLook()
	require.Equal(t, len(w.followUps()), 150, "reported")
	w.pass(w.options.ForgetAfter)
	w.add("b")
	w.read()
	for range 5 {
		w.mustLook()
	}
	assert.Equal(t, len(w.followUps()), 150, "reported in the end")
	w.checkIDs()
}

// errCrashed is the error of a process that does not go on.
var errCrashed = errors.New("the process crashed")

func TestACrashAtAnyStepLosesAndDoublesNothing(t *testing.T) {
	crashed := true
	for at := 1; crashed; at++ {
		w := newLifecycleWorld(t, t.TempDir())
		count, down := 0, false
		crashed = false
		w.step = func() error {
			if count++; count == at {
				crashed, down = true, true
			}
			if down {
				return errCrashed
			}
			return nil
		}
		poll := func(source func() poller.Source) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w.standin.OnRequest(func(*http.Request) {
				if w.step() != nil {
					cancel()
				}
			})
			_, err := source().Poll(ctx)
			w.standin.OnRequest(nil)
			if down {
				down = false
				w.restart()
				return
			}
			require.NoError(t, err)
		}
		polls := func() {
			for range 2 {
				w.pass(w.options.ReconcileEvery)
				poll(func() poller.Source { return w.detections })
				poll(func() poller.Source { return w.lifecycle })
			}
		}
		a, b, c := w.add("a"), w.add("b"), w.add("c")
		polls()
		rule := w.rule(`"detection_type":"a"`)
		w.standin.Hide(b)
		polls()
		w.call("DELETE", rule, "")
		w.update("in_progress", c)
		polls()
		w.checkIDs()
		want := []string{
			"hidden a: no longer shown: hidden by rule 1", "gone b: no longer shown: the appliance has no detection with this id", "shown a: shown again",
		}
		require.True(t, slices.Equal(named(w.followUps(), a, b, c), want), "reported after a crash at step", at, w.followUps())
	}
}

func TestAMissingDetectionDoesNotTurnTheLookOff(t *testing.T) {
	w := newLifecycleWorld(t, t.TempDir())
	w.add("a")
	w.read()
	served := *w.served.Load()
	w.serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/detections/search") {
			http.NotFound(rw, r)
			return
		}
		served.ServeHTTP(rw, r)
	}))
	err := w.look()
	assert.ErrorContains(t, err, "404")
	_, is := errors.AsType[*appliance.Error](err)
	assert.False(t, is, err)
}
