package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// vanish deletes detections of an appliance until ctx is done.
func (s *sensor) vanish(ctx context.Context, _ *testing.T, random *rand.Rand) {
	each(ctx, 400*time.Millisecond, func() {
		if v := s.pick(random); v != nil {
			s.deleted.Store(v.ID, nil)
			s.appliance.Hide(v.ID)
		}
	})
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
