package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	standin "ndrbridge/test/appliance"
	"ndrbridge/transform"
)

// latencyRow is the latency of events, in milliseconds.
type latencyRow struct {
	Beside     string  `json:"beside"` // the other load of the bridge
	Detections int     `json:"detections"`
	Median     float64 `json:"median_ms"`
	P99        float64 `json:"p99_ms"`
	Max        float64 `json:"max_ms"`
	Hanging    int     `json:"hanging_requests,omitempty"` // for records, meanwhile
}

const (
	latencyDetections = 200
	// evidenceDetections are as many as take longer than evidenceTimeout many times.
	evidenceDetections = 600
	evidenceTimeout    = "500ms"
	latencyWarmUp      = 10 // detections that are not counted
	latencyInterval    = "100ms"
)

// The concurrent activity of another appliance of the same bridge, or of the record store from
// which evidence is read.
const (
	readyRecords      = "with evidence"
	deadRecords       = "with evidence from a record store that never answers"
	aloneAppliance    = "alone"
	deadAppliance     = "beside one that never answers"
	refusingAppliance = "beside one that refuses every request"
)

// latencies measures the latency for each activity of another appliance.
func (b *bench) latencies(ctx context.Context, r *report) error {
	for _, beside := range []string{aloneAppliance, deadAppliance, refusingAppliance, readyRecords, deadRecords} {
		b.say("latency, %s", beside)
		if err := b.run(ctx, patience, func(ctx context.Context, dir string) error {
			detections := latencyDetections
			if beside == readyRecords || beside == deadRecords {
				detections = evidenceDetections
			}
			row, err := b.latency(ctx, dir, beside, detections)
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
// appliance, or of the record store.
func (b *bench) latency(ctx context.Context, dir, beside string, detections int) (row latencyRow, err error) {
	shown, arrived := &shownAppliance{appliance: standin.New(standin.Options{Seed: 1, Size: b.size})}, make(arrivals, 1)
	stop := make(chan struct{})
	var searches atomic.Int64 // for records
	sensor, hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/records/search") {
			if searches.Add(1); beside == deadRecords {
				hang(r, stop)
				return
			}
		}
		shown.ServeHTTP(w, r)
	})), httptest.NewServer(arrived)
	defer sensor.Close()
	defer hook.Close()
	defer close(stop)

	sink := webhookTarget.sink(hook.URL)
	sink["batch"] = map[string]any{"linger": 0}
	polled := map[string]any{"interval": latencyInterval}
	appliances := []map[string]any{applianceAt(sensor.URL, polled)}
	switch beside {
	case readyRecords, deadRecords:
		appliances[0]["timeout"], appliances[0]["evidence"] = evidenceTimeout, allFollowUps["evidence"]
		appliances[0]["retry"] = map[string]any{"initial": "10ms", "max": "10ms"}
	case deadAppliance, refusingAppliance:
		other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if beside == deadAppliance {
				hang(r, stop)
			}
			http.Error(w, `{"error_message": "not now"}`, http.StatusServiceUnavailable)
		}))
		defer other.Close()
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
	row, err = shown.measure(running, arrived, detections, func() bool {
		return beside != readyRecords && beside != deadRecords || searches.Load() > 0
	})
	if row.Beside = beside; beside == deadRecords {
		row.Hanging = int(searches.Load())
	}
	_, _, stopErr := s.stop()
	return row, errors.Join(err, stopErr)
}

// hang waits until stop is closed, or the client has given up.
func hang(r *http.Request, stop <-chan struct{}) {
	select {
	case <-stop:
	case <-r.Context().Done():
	}
}

// arrivals receives the time at which a webhook has received the version of a detection.
type arrivals chan time.Time

// ServeHTTP implements http.Handler.
func (a arrivals) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	now := time.Now()
	w.WriteHeader(http.StatusNoContent)
	if bytes.Contains(body, []byte(transform.TypePrefix+"detection.evidence")) {
		return
	}
	select {
	case a <- now:
	case <-r.Context().Done():
	}
}

// measure adds detections one after the other and waits until each has arrived. It counts them
// from when warm returns true.
func (s *shownAppliance) measure(ctx context.Context, arrived arrivals, detections int, warm func() bool) (row latencyRow, err error) {
	var took []float64
	for n := 1; len(took) < detections; n++ {
		s.add()
		select {
		case at := <-arrived:
			if n > latencyWarmUp && warm() {
				took = append(took, milliseconds(at.Sub(s.at())))
			}
		case <-ctx.Done():
			return row, fmt.Errorf("detection %d did not arrive: %w", n, context.Cause(ctx))
		}
	}
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
