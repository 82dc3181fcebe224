package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"ndrbridge/poller"
	"ndrbridge/test/assert"
	"ndrbridge/transform"
)

// hiddenTypes are the types of the detections that rules hide for a while.
var hiddenTypes = []string{"port_scan", "ssh_brute_force", "crypto_mining"}

// changeRules creates, changes and removes a rule again and again until ctx is done. Each change is
// made once the one before was reported. At the end there is no rule.
func (s *sensor) changeRules(ctx context.Context, t *testing.T, random *rand.Rand) {
	s.repeat(ctx, t, poller.StreamRules, func(report func(key string, actions ...string)) {
		const rules = "/detections/rules/hiding/"
		id := s.create(t, rules, map[string]any{
			"offender": "Any", "victim": "Any", "expiration": nil, "detection_type": hiddenTypes[random.IntN(len(hiddenTypes))],
		})
		rule := poller.StreamRules + " " + id
		report(rule, "created")
		s.change(t, http.MethodPatch, rules+id, map[string]any{"description": "temporary"})
		report(rule, "updated")
		if random.IntN(2) == 0 {
			s.change(t, http.MethodPatch, rules+id, map[string]any{"expiration": s.appliance.Clock().Add(200 * time.Millisecond).UnixMilli()})
			report(rule, "updated", "expired")
		}
		s.change(t, http.MethodDelete, rules+id, nil)
		report(rule, "removed")
	})
}

// changeIntervals begins, ends and removes exclusion intervals.
func (s *sensor) changeIntervals(ctx context.Context, t *testing.T, random *rand.Rand) {
	n := 0
	s.repeat(ctx, t, poller.StreamIntervals, func(report func(key string, actions ...string)) {
		const intervals = "/exclusionintervals/"
		n++
		now := s.appliance.Clock().Unix()
		id := s.create(t, intervals, map[string]any{
			"name": fmt.Sprintf("interval %d", n), "interval_type": "onetime", "start": now - 10, "end": now + 3600, "alert_apply_all": true, "trend_apply_all": false,
		})
		spot := poller.StreamIntervals + " " + id
		report(spot, "opened")
		if random.IntN(2) == 0 {
			s.change(t, http.MethodPatch, intervals+id, map[string]any{"end": now})
			report(spot, "closed")
			s.change(t, http.MethodDelete, intervals+id, nil)
			return
		}
		s.change(t, http.MethodDelete, intervals+id, nil)
		report(spot, "closed")
	})
}

// changeAlerts disables and enables an alert.
func (s *sensor) changeAlerts(ctx context.Context, t *testing.T, _ *rand.Rand) {
	s.toggle(ctx, t, poller.StreamAlerts, "2", "/alerts/2", "disabled", true)
}

// changeIngest halts and resumes the ingest of records.
func (s *sensor) changeIngest(ctx context.Context, t *testing.T, _ *rand.Rand) {
	s.toggle(ctx, t, poller.StreamIngest, transform.BlindIngest, "/service/cluster", "ingest_enabled", false)
}

// toggle opens and closes a blind spot by a setting.
func (s *sensor) toggle(ctx context.Context, t *testing.T, stream, id, path, setting string, open bool) {
	s.repeat(ctx, t, stream, func(report func(key string, actions ...string)) {
		s.change(t, http.MethodPatch, path, map[string]any{setting: open})
		report(stream+" "+id, "opened")
		s.change(t, http.MethodPatch, path, map[string]any{setting: !open})
		report(stream+" "+id, "closed")
	})
}

// repeat calls do once the stream has a position, and until ctx is done. report records the actions
// that the change before it makes, and waits until they are reported.
func (s *sensor) repeat(ctx context.Context, t *testing.T, stream string, do func(report func(key string, actions ...string))) {
	f := s.follow
	report := func(key string, actions ...string) {
		f.mu.Lock()
		f.made[key] = append(f.made[key], actions...)
		made := len(f.made[key])
		f.mu.Unlock()
		for deadline := time.Now().Add(patience); f.arrived.changesOf(key) < made && t.Context().Err() == nil; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("%s, %s: %v was not reported", s.name, key, actions)
				return
			}
		}
	}
	each(ctx, 20*time.Millisecond, func() {
		f.mu.Lock()
		contact := f.contact[stream]
		if contact {
			f.waiting[stream]++
		}
		f.mu.Unlock()
		if !contact {
			return
		}
		do(report)
		f.mu.Lock()
		f.waiting[stream]--
		f.mu.Unlock()
	})
}

// create creates an object of a collection, and returns its id.
func (s *sensor) create(t *testing.T, collection string, object map[string]any) (id string) {
	answer := s.change(t, http.MethodPost, strings.TrimSuffix(collection, "/"), object)
	return answer[strings.LastIndexByte(answer, '/')+1:]
}

// change makes a request that changes the appliance, and returns the Location of its answer.
func (s *sensor) change(t *testing.T, method, path string, object map[string]any) (location string) {
	body := ""
	if object != nil {
		encoded, err := json.Marshal(object)
		assert.NoError(t, err)
		body = string(encoded)
	}
	answer := ask(s.appliance, method, path, body)
	assert.True(t, answer.Code < http.StatusMultipleChoices, method, path, answer.Code, answer.Body)
	return answer.Header().Get("Location")
}

// addChange records the event of a change.
func (f *followed) addChange(e transform.Event, stream string) {
	data := parse(e)
	for _, id := range data.Rules { // all were removed at once
		key := fmt.Sprintf("%s %d", stream, id)
		f.changes[key] = append(f.changes[key], e.Action())
	}
	if data.Rules == nil {
		key := stream + " " + e.Subject
		f.changes[key] = append(f.changes[key], e.Action())
	}
}

func (f *followed) changesOf(key string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.changes[key])
}

// missingChanges returns the changes of rules and blind spots that were not reported.
func (s *sensor) missingChanges(f *followed) (missing []string) {
	for key, made := range s.follow.made {
		if len(f.changes[key]) < len(made) {
			missing = append(missing, fmt.Sprintf("%s: %v, of which %v arrived", key, made, f.changes[key]))
		}
	}
	return missing
}

// changeFaults returns the rules and blind spots whose changes were not reported once each, and in
// their order.
func (s *sensor) changeFaults(f *followed) (faults []string) {
	for key, reported := range f.changes {
		if made := s.follow.made[key]; !slices.Equal(reported, made) {
			faults = append(faults, fmt.Sprintf("%s: %v was reported, and this happened: %v", key, reported, made))
		}
	}
	return faults
}
