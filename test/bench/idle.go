package main

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/poller"
	standin "ndrbridge/test/appliance"
)

// idleRow is the cost of a poll that finds nothing new, in milliseconds.
type idleRow struct {
	Known    int     `json:"known_detections"`
	Over     string  `json:"over"` // the time in which they changed
	Polls    int     `json:"polls"`
	Requests float64 `json:"requests"` // the mean
	Median   float64 `json:"median_ms"`
	P99      float64 `json:"p99_ms"`
	CPU      float64 `json:"cpu_ms"` // the mean
}

// idleCase is the history of an appliance before idle polls are measured.
type idleCase struct {
	known   int           // detections
	over    time.Duration // in which they changed
	overlap time.Duration
	wait    bool // poll until the overlap has passed before measuring
}

// idleCases are an appliance after a long history and one after a burst of changes. The
// overlap of the burst is short, so that it passes during the measurement.
var idleCases = []idleCase{
	{known: 10_000, over: 10_000 * idleSpacing, overlap: idleOverlap},
	{known: 200_000, over: 200_000 * idleSpacing, overlap: idleOverlap},
	{known: 20_000, over: time.Minute, overlap: time.Second, wait: true},
}

// warmUp is how long the source is polled until an overlap of a second has passed by the
// appliance's clock, including the rounding and skew of its clocks.
const warmUp = 12 * time.Second

// countedClient counts the requests for pages.
type countedClient struct {
	*appliance.Client
	requests int
}

// SearchDetections implements poller.DetectionsClient.
func (c *countedClient) SearchDetections(ctx context.Context, s appliance.Search, page *appliance.Page) error {
	c.requests++
	return c.Client.SearchDetections(ctx, s, page)
}

const (
	polls = 300
	// idleSpacing is the time between two detections. It is the same for all, so that every
	// poll re-reads the same number of detections in the overlap.
	idleSpacing = time.Second
	idleOverlap = 2 * time.Minute
)

// idlePolls measures the polls of each case.
func (b *bench) idlePolls(ctx context.Context, r *report) error {
	for _, of := range idleCases {
		b.say("idle polls with %d known detections that changed within %s", of.known, of.over)
		if err := b.run(ctx, patience, func(ctx context.Context, dir string) error {
			row, err := b.idlePoll(ctx, dir, of)
			r.IdlePolls = append(r.IdlePolls, row)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// idlePoll measures only the source, in this process, with its state in a file. The
// appliance is a process of its own.
func (b *bench) idlePoll(ctx context.Context, dir string, of idleCase) (row idleRow, err error) {
	url, stop, err := b.startAppliance(ctx, of.known, of.over)
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
	counted := &countedClient{Client: c}
	source := poller.NewDetections(counted, store, poller.DetectionsOptions{
		StreamOptions: poller.StreamOptions{
			Appliance: "hq", URL: url,
			Start:    func(time.Time) time.Time { return time.Time{} },
			PageSize: 1000,
			Now:      time.Now,
			Log:      slog.New(slog.DiscardHandler),
			Metrics:  poller.NewMetrics(prometheus.NewRegistry()),
		},
		Overlap:     of.overlap,
		ForgetAfter: 90 * 24 * time.Hour,
	})
	if _, err := source.Poll(ctx); err != nil { // the backlog
		return row, err
	}

	for end := time.Now().Add(warmUp); of.wait && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if _, err := source.Poll(ctx); err != nil {
			return row, err
		}
	}

	counted.requests = 0
	took := make([]float64, polls)
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
		Known: of.known, Over: of.over.String(), Polls: polls, Requests: float64(counted.requests) / polls,
		Median: quantile(took, 0.5), P99: quantile(took, 0.99), CPU: milliseconds(spent) / polls,
	}, nil
}
