package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	standin "ndrbridge/test/appliance"
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

// fleets are the numbers of appliances polled at once.
var fleets = []int{1, 50, 200, 1000}

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
func (b *bench) fleet(ctx context.Context, n int) (_ *fleetRow, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	dir, err := os.MkdirTemp(b.dir, "run-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

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
	row := &fleetRow{
		Appliances: n, Events: n * (fleetDetections + fleetAudit), Goal: 100<<20 + int64(n)<<19,
	}
	began := time.Now()
	s, err := b.startBridge(ctx, dir, configuration(dir, []map[string]any{fileTarget.sink(filepath.Join(dir, "events.jsonl"))}, appliances...))
	if err != nil {
		return nil, err
	}
	err = s.await(ctx, row.Events, 1)
	row.Seconds = time.Since(began).Seconds()
	pid := s.cmd.Process.Pid
	if err == nil {
		err = sleep(ctx, fleetRest)
	}
	if err == nil && n == fleetIdle {
		spent := cpuTimeOf(pid)
		err = sleep(ctx, fleetIdleFor)
		row.IdleCPU = (cpuTimeOf(pid) - spent).Seconds() / fleetIdleFor.Seconds()
	}
	var after memory
	after.sample(pid)
	row.After = after.anon
	_, m, stopErr := s.stop()
	row.Anon = m.anon
	return row, errors.Join(err, stopErr)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
