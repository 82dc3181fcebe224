package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"time"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/process"
)

// fleetRow is the cost of a bridge with many appliances.
type fleetRow struct {
	Appliances int     `json:"appliances"`
	Events     int     `json:"events"`
	Seconds    float64 `json:"seconds"` // until all of them were delivered
	Anon       int64   `json:"rss_anon,omitempty"`
	After      int64   `json:"rss_anon_after,omitempty"` // at the end
	Goal       int64   `json:"rss_anon_goal"`
	// IdleCPU is the share of a core used by polls at the default intervals; 0: not
	// measured.
	IdleCPU float64 `json:"idle_cpu,omitempty"`
}

// fleets measures fleets of several sizes, or of the size that was requested.
func (b *bench) fleets(ctx context.Context, r *report) error {
	sizes := []int{1, 50, 200, 1000}
	if b.settings.fleet > 0 {
		sizes = []int{b.settings.fleet}
	}
	for _, n := range sizes {
		b.say("a fleet of %d", n)
		if err := b.run(ctx, patience, func(ctx context.Context, dir string) error {
			row, err := b.fleet(ctx, dir, n)
			r.Fleets = append(r.Fleets, row)
			return err
		}); err != nil {
			return fmt.Errorf("%d appliances: %w", n, err)
		}
	}
	return nil
}

const (
	fleetDetections = 500
	fleetAudit      = 200
	// fleetIdle is the fleet whose idle CPU time is measured, and for how long.
	fleetIdle    = 200
	fleetIdleFor = time.Minute
	// fleetRest is the idle time before a fleet's memory is measured.
	fleetRest = 10 * time.Second
)

// fleet runs a bridge that reads n appliances from the beginning to a file. The appliances
// are in this process, each with its own address.
func (b *bench) fleet(ctx context.Context, dir string, n int) (fleetRow, error) {
	// One stand-in serves all appliances with the same objects; to the bridge they differ.
	one := standin.New(standin.Options{Seed: 1, Size: b.size})
	one.AddBacklog(fleetDetections, fleetDetections*time.Minute)
	one.AddAudit(fleetAudit)
	var appliances []map[string]any
	for i := range n {
		sensor := httptest.NewServer(one)
		defer sensor.Close()
		a := applianceAt(sensor.URL, map[string]any{})
		a["name"] = fmt.Sprintf("sensor-%d", i)
		a["audit"] = map[string]any{"start": "beginning"}
		delete(a, "rate_limit")
		appliances = append(appliances, a)
	}
	row := fleetRow{Appliances: n, Events: n * (fleetDetections + fleetAudit), Goal: 100<<20 + int64(n)<<19}
	began := time.Now()
	s, err := b.startBridge(ctx, dir, configuration(dir, []map[string]any{fileTarget.sink(filepath.Join(dir, "events.jsonl"))}, appliances...))
	if err != nil {
		return row, err
	}
	err = s.await(ctx, row.Events, 1)
	row.Seconds = time.Since(began).Seconds()
	if err == nil {
		err = sleep(ctx, fleetRest)
	}
	if err == nil && n == fleetIdle {
		row.IdleCPU, err = s.idleCPU(ctx)
	}
	row.After, _ = process.Memory(s.cmd.Process.Pid)
	_, m, stopErr := s.stop()
	row.Anon = m.anon
	return row, errors.Join(err, stopErr)
}

// idleCPU returns the share of a core that the bridge uses over fleetIdleFor.
func (s *service) idleCPU(ctx context.Context) (float64, error) {
	const seconds = "process_cpu_seconds_total"
	before, err := s.samples(ctx)
	if err != nil {
		return 0, err
	}
	if err := sleep(ctx, fleetIdleFor); err != nil {
		return 0, err
	}
	after, err := s.samples(ctx)
	return (after[seconds] - before[seconds]) / fleetIdleFor.Seconds(), err
}
