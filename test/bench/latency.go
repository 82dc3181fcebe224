package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	standin "ndrbridge/test/appliance"
)

// latencyRow is the latency of events, in milliseconds.
type latencyRow struct {
	Beside     string  `json:"beside"` // the other load of the bridge
	Detections int     `json:"detections"`
	Median     float64 `json:"median_ms"`
	P99        float64 `json:"p99_ms"`
	Max        float64 `json:"max_ms"`
}

const (
	latencyDetections = 200
	latencyWarmUp     = 10 // detections that are not counted
	latencyInterval   = "100ms"
)

// The concurrent activity of another appliance of the same bridge.
const (
	aloneAppliance    = "alone"
	deadAppliance     = "beside one that never answers"
	refusingAppliance = "beside one that refuses every request"
)

// latencies measures the latency for each activity of another appliance.
func (b *bench) latencies(ctx context.Context, r *report) error {
	for _, beside := range []string{aloneAppliance, deadAppliance, refusingAppliance} {
		b.say("latency, %s", beside)
		if err := b.run(ctx, patience, func(ctx context.Context, dir string) error {
			row, err := b.latency(ctx, dir, beside)
			r.Latency = append(r.Latency, row)
			return err
		}); err != nil {
			return fmt.Errorf("%s: %w", beside, err)
		}
	}
	return nil
}

// latency adds detections one after the other and measures the time from when the response
// that contains one was written until a webhook has received its event. The appliance and
// the receiver are in this process and share its clock. beside is the activity of another
// appliance.
func (b *bench) latency(ctx context.Context, dir, beside string) (row latencyRow, err error) {
	shown, arrived := &shownAppliance{appliance: standin.New(standin.Options{Seed: 1, Size: b.size})}, make(arrivals, 1)
	sensor, hook := httptest.NewServer(shown), httptest.NewServer(arrived)
	defer sensor.Close()
	defer hook.Close()

	sink := webhookTarget.sink(hook.URL)
	sink["batch"] = map[string]any{"linger": 0}
	polled := map[string]any{"interval": latencyInterval}
	appliances := []map[string]any{applianceAt(sensor.URL, polled)}
	if beside != aloneAppliance {
		stop := make(chan struct{})
		other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if beside == deadAppliance {
				select {
				case <-stop:
				case <-r.Context().Done():
				}
			}
			http.Error(w, `{"error_message": "not now"}`, http.StatusServiceUnavailable)
		}))
		defer other.Close()
		defer close(stop)
		troubled := applianceAt(other.URL, polled)
		troubled["name"], troubled["timeout"] = "branch", "1s"
		troubled["retry"] = map[string]any{"initial": "10ms", "max": "10ms"}
		appliances = append(appliances, troubled)
	}
	s, err := b.startBridge(ctx, dir, configuration(dir, []map[string]any{sink}, appliances...))
	if err != nil {
		return row, err
	}
	running, end := whileRunning(ctx, s)
	defer end()
	row, err = shown.measure(running, arrived)
	row.Beside = beside
	_, _, stopErr := s.stop()
	return row, errors.Join(err, stopErr)
}

// arrivals receives the time at which a webhook has received an event.
type arrivals chan time.Time

// ServeHTTP implements http.Handler.
func (a arrivals) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	now := time.Now()
	w.WriteHeader(http.StatusNoContent)
	select {
	case a <- now:
	case <-r.Context().Done():
	}
}

// measure adds detections one after the other and waits until each has arrived.
func (s *shownAppliance) measure(ctx context.Context, arrived arrivals) (row latencyRow, err error) {
	var took []float64
	for len(took) < latencyWarmUp+latencyDetections {
		s.add()
		select {
		case at := <-arrived:
			took = append(took, milliseconds(at.Sub(s.at())))
		case <-ctx.Done():
			return row, fmt.Errorf("detection %d did not arrive: %w", len(took)+1, context.Cause(ctx))
		}
	}
	took = took[latencyWarmUp:]
	slices.Sort(took)
	return latencyRow{Detections: len(took), Median: quantile(took, 0.5), P99: quantile(took, 0.99), Max: took[len(took)-1]}, nil
}

// shownAppliance records when a detection was first returned. No detection is added while it
// responds.
type shownAppliance struct {
	mu        sync.Mutex
	appliance *standin.Appliance
	waiting   bool      // a detection was added but not returned yet
	shownAt   time.Time // of the detection added last
}

func (s *shownAppliance) add() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.appliance.AddMany(1)
	s.waiting = true
}

// at returns when the detection added last was first returned. Its event must have arrived.
func (s *shownAppliance) at() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shownAt
}

// ServeHTTP implements http.Handler. The end of a response is sent after ServeHTTP has
// returned, so the recorded time is never late.
func (s *shownAppliance) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.appliance.ServeHTTP(w, r)
	if s.waiting && strings.HasSuffix(r.URL.Path, "/detections/search") {
		s.waiting, s.shownAt = false, time.Now()
	}
}
