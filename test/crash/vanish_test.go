package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// followUps are the keys of an appliance that turn follow-ups on, and report is what the sweep of
// detections reports then.
const (
	followUps = `
    context: {devices: true, tags: true, groups: true, every: 1m}`
	report = ", report: [hidden, gone, shown]"
)

// vanish lets detections of an appliance vanish until ctx is done: it deletes some, and hides
// those of a type for a while. At its end no rule hides any.
func (s *sensor) vanish(ctx context.Context, t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 2))
	ticker := time.NewTicker(300 * time.Millisecond)
	defer ticker.Stop()
	rule := ""
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			s.removeRule(t, rule)
			return
		case <-ticker.C:
		}
		shown := s.appliance.Latest()
		if len(shown) == 0 {
			continue
		}
		v := shown[random.IntN(len(shown))]
		switch {
		case n%4 != 0:
			s.deleted.Store(v.ID, nil)
			s.appliance.Hide(v.ID)
		case rule != "":
			s.removeRule(t, rule)
			rule = ""
		default:
			rule = s.addRule(t, v.Type)
		}
	}
}

// ask makes a request that no hazard affects.
func (s *sensor) ask(method, path, body string) *httptest.ResponseRecorder {
	s.appliance.SetHazards(standin.Hazards{})
	defer s.misbehave()
	r := httptest.NewRequest(method, "/api/v1"+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Service apikey="+standin.DefaultAPIKey)
	r.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	s.appliance.ServeHTTP(answer, r)
	return answer
}

// addRule hides the detections of a type, and returns the path of the rule.
func (s *sensor) addRule(t *testing.T, kind string) (path string) {
	const rules = "/detections/rules/hiding"
	body, err := json.Marshal(map[string]any{"offender": "Any", "victim": "Any", "expiration": nil, "detection_type": kind})
	require.NoError(t, err)
	answer := s.ask(http.MethodPost, rules, string(body))
	if !assert.Equal(t, answer.Code, http.StatusCreated, answer.Body) {
		return ""
	}
	location := answer.Header().Get("Location")
	return rules + location[strings.LastIndexByte(location, '/'):]
}

func (s *sensor) removeRule(t *testing.T, path string) {
	if path != "" {
		answer := s.ask(http.MethodDelete, path, "")
		assert.Equal(t, answer.Code, http.StatusNoContent, answer.Body)
	}
}

// open returns the detections that an appliance shows as open.
func (s *sensor) open() map[int64]bool {
	open := make(map[int64]bool)
	for _, v := range s.appliance.Latest() {
		if v.Detection().Status != "closed" {
			open[v.ID] = true
		}
	}
	return open
}

// closedAlike returns the differences between the open detections at the appliances and at a sink.
func (s *site) closedAlike(sink string) (faults []string) {
	for _, sensor := range s.sensors {
		for _, fault := range sensor.book.JudgeOpen(sink, sensor.open()).Faults {
			faults = append(faults, fmt.Sprintf("%s, %s: %s", sink, sensor.name, fault))
		}
	}
	return faults
}

// awaitOpen waits until the same detections are open at each sink that can be observed as at the
// appliances.
func (s *scene) awaitOpen(t *testing.T, b *bridge) {
	t.Helper()
	for _, sink := range []string{webhookSink, natsSink, mirrorSink, kafkaSink} {
		for deadline := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
			faults := s.closedAlike(sink)
			if len(faults) == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d detections are not open alike, %s; the last bridge wrote:\n%s", len(faults), strings.Join(faults[:min(len(faults), 10)], "\n"), b.output.end())
			}
		}
	}
}
