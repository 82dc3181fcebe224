package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/appliance"
	"ndrbridge/checkpoint"
	"ndrbridge/poller"
	standin "ndrbridge/test/appliance"
)

// idleRow is what a poll costs that finds nothing new, in milliseconds.
type idleRow struct {
	Known  int     `json:"known_detections"`
	Polls  int     `json:"polls"`
	Median float64 `json:"median_ms"`
	P99    float64 `json:"p99_ms"`
	CPU    float64 `json:"cpu_ms"` // the mean
}

// knownBehind are how many detections are known when idle polls are measured.
var knownBehind = []int{10_000, 200_000}

const (
	idlePolls = 300
	// idleSpacing lies between two detections. It is the same for all, so that a
	// poll looks at as many detections again, those of overlap.
	idleSpacing = time.Second
	idleOverlap = 2 * time.Minute
)

// idlePoll measures the source alone, in this process, with its state in a file;
// the appliance is in a process of its own.
func (b *bench) idlePoll(ctx context.Context, known int) (row idleRow, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	dir, err := os.MkdirTemp(b.dir, "run-")
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	url, stop, err := b.startAppliance(ctx, known, time.Duration(known)*idleSpacing)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, stop()) }()

	store, err := checkpoint.Open(filepath.Join(dir, "state.db"), checkpoint.Options{})
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	c, err := appliance.New(appliance.Options{URL: url, Key: func() (string, error) { return standin.DefaultAPIKey, nil }})
	if err != nil {
		return row, err
	}
	defer c.Close()
	source := poller.NewDetections(c, store, poller.DetectionsOptions{
		Appliance: "hq", URL: url,
		Start:       func(time.Time) time.Time { return time.Time{} },
		Overlap:     idleOverlap,
		PageSize:    1000,
		ForgetAfter: 90 * 24 * time.Hour,
		TypePrefix:  "io.ndrbridge",
		Now:         time.Now,
		Log:         slog.New(slog.DiscardHandler),
		Metrics:     poller.NewMetrics(prometheus.NewRegistry()),
	})
	if _, err := source.Poll(ctx); err != nil { // the backlog
		return row, err
	}

	took := make([]float64, idlePolls)
	spent := cpuTime()
	for i := range took {
		began := time.Now()
		if _, err := source.Poll(ctx); err != nil {
			return row, err
		}
		took[i] = milliseconds(time.Since(began))
	}
	spent = cpuTime() - spent
	slices.Sort(took)
	return idleRow{
		Known: known, Polls: idlePolls, Median: quantile(took, 0.5), P99: quantile(took, 0.99),
		CPU: milliseconds(spent) / idlePolls,
	}, nil
}
