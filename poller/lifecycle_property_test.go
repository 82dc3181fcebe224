package poller_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/poller"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/require"
	"ndrbridge/test/slowtest"
)

// livingWorld is a lifecycleWorld whose appliance changes at any time.
type livingWorld struct {
	*lifecycleWorld
	rules []string // the paths of those that were not removed
}

// change draws a change of the appliance.
func (w *livingWorld) change(t *rapid.T) func() {
	lot := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "which"), 0))
	some := func() (ids []int64) {
		for _, v := range w.standin.Latest() {
			if v.Type != "anchor" && lot.IntN(3) == 0 {
				ids = append(ids, v.ID)
			}
		}
		return ids
	}
	kind := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "type")
	switch rapid.SampledFrom([]string{
		"add", "add", "add many", "late", "update", "update", "close", "delete", "rule", "rule", "rule", "end a rule", "end a rule", "end all rules", "tick",
	}).Draw(t, "change") {
	case "add":
		return func() { w.add(kind) }
	case "add many":
		return func() {
			for range 12 {
				w.add(kind)
			}
		}
	case "late":
		ago := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "ago"))
		return func() {
			v := w.standin.AddLate(ago)
			require.NoError(w, w.standin.Edit(func(d *standin.Detection) { d.Type, d.Categories = kind, []string{"sec"} }, v.ID))
		}
	case "update":
		status := rapid.SampledFrom([]standin.Text{"new", "in_progress", standin.Null}).Draw(t, "status")
		return func() { w.update(status, some()...) }
	case "close":
		return func() { w.update("closed", some()...) }
	case "delete":
		return func() {
			ids := some()
			w.standin.Hide(ids[:min(len(ids), 1+lot.IntN(15))]...)
		}
	case "rule":
		fields := fmt.Sprintf(`"detection_type":%q`, rapid.SampledFrom([]string{kind, kind, "all_security"}).Draw(t, "of"))
		fields += rapid.SampledFrom([]string{"", "", `,"offender":{"object_type":"ipaddr","object_value":"0.0.0.0/1"}`}).Draw(t, "for")
		lasts := rapid.SampledFrom([]time.Duration{0, 0, time.Minute, 20 * time.Minute}).Draw(t, "until")
		return func() {
			if len(w.rules) >= 90 {
				return
			}
			if lasts > 0 {
				fields += fmt.Sprintf(`,"expiration":%d`, w.now.Load()+lasts.Milliseconds())
			}
			w.rules = append(w.rules, w.rule(fields))
		}
	case "end a rule":
		return func() {
			if len(w.rules) == 0 {
				return
			}
			i := lot.IntN(len(w.rules))
			if lot.IntN(2) == 0 {
				w.call("PATCH", w.rules[i], `{"enabled":false}`)
				return
			}
			w.call("DELETE", w.rules[i], "")
			w.rules = slices.Delete(w.rules, i, i+1)
		}
	case "end all rules":
		return func() {
			for _, path := range w.rules {
				w.call("DELETE", path, "")
			}
			w.rules = nil
		}
	}
	by := time.Duration(rapid.Int64Range(0, int64(10*time.Minute)).Draw(t, "tick"))
	return func() { w.pass(by) }
}

// poll polls a source, while the appliance changes and the process may end.
func (w *livingWorld) poll(t *rapid.T, source poller.Source) {
	var changes []func()
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 3}).Draw(t, "changes meanwhile") {
		changes = append(changes, w.change(t))
	}
	left := rapid.SampledFrom([]int{1000, 1000, 1000, 1, 2, 4, 8, 16}).Draw(t, "steps until the end")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var mu sync.Mutex
	over := false // requests that were cancelled may still be served
	w.step = func() error {
		mu.Lock()
		defer mu.Unlock()
		if left--; left <= 0 {
			cancel()
			return errCrashed
		}
		return nil
	}
	w.standin.OnRequest(func(*http.Request) {
		_ = w.step()
		mu.Lock()
		defer mu.Unlock()
		if len(changes) > 0 && !over {
			change := changes[0]
			changes = changes[1:]
			w.standin.OnRequest(nil) // the change itself makes requests
			change()
		}
	})
	_, _ = source.Poll(ctx) // what fails is tried again
	mu.Lock()
	over = true
	mu.Unlock()
	w.standin.OnRequest(nil)
	w.step = func() error { return nil }
	if left <= 0 {
		w.restart()
	}
}

// hazards draws how the appliance misbehaves.
func hazards(t *rapid.T) standin.Hazards {
	seldom := func(name string) float64 { return rapid.SampledFrom([]float64{0, 0, 0, 0.3}).Draw(t, name) }
	h := standin.Hazards{
		Reset: seldom("reset"), TooManyRequests: seldom("429"), ServerError: seldom("5xx"), HTML: seldom("html"),
		CutBody: seldom("cut body"), CutJSON: seldom("cut"), Lost: seldom("lost"),
		LimitCap: rapid.SampledFrom([]int{0, 0, 2, 5}).Draw(t, "cap"), LimitRefused: rapid.SampledFrom([]int{0, 0, 4}).Draw(t, "refused"),
		InclusiveBound: rapid.Bool().Draw(t, "inclusive"), ShuffledTies: rapid.Bool().Draw(t, "shuffled"),
		Refusal: rapid.SampledFrom([]standin.Refusal{0, 0, 0, standin.RefusedJSON, standin.RefusedForbidden}).Draw(t, "key"),
	}
	if of := rapid.SampledFrom([]string{"", "", "/search", "/hiding"}).Draw(t, "of"); of != "" {
		h.Only = func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, of) }
	}
	return h
}

// shown returns the detections that the appliance shows as open.
func (w *livingWorld) shown() (open []int64) {
	var all []struct {
		ID     int64
		Status string
	}
	require.NoError(w, json.Unmarshal(w.call("POST", "/detections/search", `{"limit":20000}`).Body.Bytes(), &all))
	for _, d := range all {
		if d.Status != "closed" {
			open = append(open, d.ID)
		}
	}
	slices.Sort(open)
	return open
}

// consumed returns the detections that are open for a consumer of the journal, after it checked
// that the events of each make sense in their order.
func (w *livingWorld) consumed() []int64 {
	open, missing := make(map[int64]bool), make(map[int64]bool) // missing by the last follow-up
	for _, e := range w.journal() {
		data := dataOf(w, e)
		id := data.Detection.ID
		switch e.Action() {
		case "created", "updated":
			open[id] = data.Detection.Status != "closed"
		case "hidden", "gone":
			require.True(w, open[id], "detection", id, "is", e.Action(), "although it was not open")
			open[id], missing[id] = false, true
		case "shown":
			require.True(w, missing[id], "detection", id, "is shown although it was not missing")
			open[id], missing[id] = true, false
		}
	}
	maps.DeleteFunc(open, func(_ int64, is bool) bool { return !is })
	return slices.Sorted(maps.Keys(open))
}

func TestAtRestAConsumerHasOpenWhatTheApplianceShowsAsOpen(t *testing.T) {
	slowtest.Checks(t, 30)
	dir := t.TempDir()
	sequence := 0
	rapid.Check(t, func(t *rapid.T) {
		sequence++
		of := filepath.Join(dir, fmt.Sprint(sequence))
		require.NoError(t, os.Mkdir(of, 0o700))
		w := &livingWorld{lifecycleWorld: newLifecycleWorld(t, of)}
		anchor := w.add("anchor") // shows that the appliance was not reset
		require.NoError(t, w.standin.Update(func(d *standin.Detection) { d.Status, d.Categories = "closed", []string{"custom.anchor"} }, anchor))
		w.read()
		for range rapid.IntRange(10, 50).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"change", "change", "change", "read", "look", "read and look", "read and look", "look again", "restart", "hazards", "no hazards"}).Draw(t, "step") {
			case "change":
				w.change(t)()
			case "read":
				w.poll(t, w.detections)
			case "look":
				w.pass(w.options.ReconcileEvery)
				w.poll(t, w.lifecycle)
			case "read and look":
				w.pass(w.options.ReconcileEvery)
				w.poll(t, w.detections)
				w.poll(t, w.lifecycle)
			case "look again":
				w.pass(time.Minute)
				w.poll(t, w.lifecycle)
			case "restart":
				w.restart()
			case "hazards":
				w.standin.SetHazards(hazards(t))
			case "no hazards":
				w.standin.SetHazards(standin.Hazards{})
			}
		}
		w.standin.SetHazards(standin.Hazards{})
		for range 3 {
			w.pass(w.options.ReconcileEvery + w.options.Overlap) // rules that expire have
			w.read()
			for range 2 {
				w.pass(time.Minute) // most may be missing
				_, err := w.lifecycle.Poll(context.Background())
				require.NoError(t, err)
			}
		}
		w.checkIDs()
		got, want := w.consumed(), w.shown()
		require.True(t, slices.Equal(got, want), "open for a consumer:", got, "at the appliance:", want)
	})
}
