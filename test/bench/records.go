package main

import (
	"context"
	"errors"
	"net/http/httptest"
	"path/filepath"
	"time"

	standin "ndrbridge/test/appliance"
)

// recordsRow is the result of reading a backlog of records.
type recordsRow struct {
	Records  int     `json:"records"`
	Requests int     `json:"requests"`
	Rate     float64 `json:"records_per_second"`
	// Slowest and Fastest are the rates of the slowest and the fastest tenth.
	Slowest  float64 `json:"slowest_tenth"`
	Fastest  float64 `json:"fastest_tenth"`
	Anon     int64   `json:"rss_anon,omitempty"`
	Resident int64   `json:"vm_hwm,omitempty"`
}

const (
	backlogRecords = 1_000_000
	backlogOver    = 24 * time.Hour
	recordsTenths  = 10
	// recordsPatience is the time limit of the run.
	recordsPatience = 10 * time.Minute
)

// records measures a backlog of records.
func (b *bench) records(ctx context.Context, r *report) error {
	b.say("a backlog of %d records", backlogRecords)
	return b.run(ctx, recordsPatience, func(ctx context.Context, dir string) (err error) {
		r.Records, err = b.readRecords(ctx, dir, backlogRecords)
		return err
	})
}

// readRecords runs the bridge to read a backlog of records to a file. The appliance is in
// this process.
func (b *bench) readRecords(ctx context.Context, dir string, n int) (*recordsRow, error) {
	store := standin.New(standin.Options{Seed: 1})
	if err := store.AddRecordBacklog(n, backlogOver); err != nil {
		return nil, err
	}
	sensor := httptest.NewServer(store)
	defer sensor.Close()

	hq := applianceAt(sensor.URL, map[string]any{"enabled": false})
	hq["records"] = []any{map[string]any{"name": "all", "start": "-25h"}}
	sink := fileTarget.sink(filepath.Join(dir, "records.jsonl"))
	began := time.Now()
	s, err := b.startBridge(ctx, dir, configuration(dir, []map[string]any{sink}, hq))
	if err != nil {
		return nil, err
	}
	// Records of the last minute are read after a delay, which would be measured.
	read := n - n/1000
	var tenths []float64 // seconds since the start, when each was delivered
	for tenth := 1; tenth <= recordsTenths && err == nil; tenth++ {
		err = s.await(ctx, read*tenth/recordsTenths, 1)
		tenths = append(tenths, time.Since(began).Seconds())
	}
	_, m, stopErr := s.stop()
	if err != nil || stopErr != nil {
		return nil, errors.Join(err, stopErr)
	}
	row := &recordsRow{Records: n, Anon: m.anon, Resident: m.resident, Rate: float64(read) / tenths[len(tenths)-1]}
	for _, requests := range store.Requests() {
		row.Requests += requests
	}
	before := 0.0
	for i, at := range tenths {
		rate := float64(read) / recordsTenths / max(at-before, askEvery.Seconds())
		if row.Fastest = max(row.Fastest, rate); i == 0 || rate < row.Slowest {
			row.Slowest = rate
		}
		before = at
	}
	return row, nil
}
