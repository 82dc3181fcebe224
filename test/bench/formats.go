package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"ndrbridge/transform/format"
)

// formatDrains are the drains that are run in every format.
var formatDrains = []drain{
	{"kafka", "Kafka, zstd", []target{kafkaTarget("zstd")}},
	{"webhook-100", "webhook, 100 a request", []target{webhookBatch(100)}},
}

// formatRow is a drain in one format.
type formatRow struct {
	Sink   string      `json:"sink"`
	Format format.Name `json:"format"`
	Events int         `json:"events"`
	Bridge sideRow     `json:"bridge"`
	// Cost is the median of the CPU time, divided by that of CloudEvents.
	Cost  float64 `json:"cpu_by_cloudevents"`
	title string
}

// formats runs drains in every format. Each round runs all formats in turn, so that other
// load on the machine affects all of them.
func (b *bench) formats(ctx context.Context, r *report) (err error) {
	url, stop, err := b.startAppliance(ctx, b.events, 24*time.Hour)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for _, d := range formatDrains {
		runs := make(map[format.Name][]figures)
		for n := range b.runs {
			for _, name := range format.Names() {
				b.say("%s in %s: run %d of %d", d.title, name, n+1, b.runs)
				in := inFormat(d, name)
				f, err := b.receive(ctx, in, func(ctx context.Context, dir string, addresses []string) (figures, error) {
					return b.drain(ctx, url, in, dir, addresses)
				})
				if err != nil {
					return fmt.Errorf("%s in %s: %w", d.title, name, err)
				}
				runs[name] = append(runs[name], f)
			}
		}
		r.addFormats(d, b.events, runs)
	}
	return nil
}

// inFormat returns a drain to one sink, whose events have a format.
func inFormat(d drain, name format.Name) drain {
	t := d.targets[0]
	with := target{receive: t.receive, sink: func(address string) map[string]any {
		sink := maps.Clone(t.sink(address))
		sink["format"] = string(name)
		return sink
	}}
	if d.name != "kafka" { // its records are counted, whatever they hold
		with.receive = func(string) (*receiver, error) { return receiveDocuments(name.Start()) }
	}
	return drain{d.name, d.title, []target{with}}
}

// addFormats adds the runs of a drain in every format.
func (r *report) addFormats(d drain, events int, runs map[format.Name][]figures) {
	plain := sideOf(events, runs[format.CloudEvents])
	for _, name := range format.Names() {
		side := sideOf(events, runs[name])
		r.Formats = append(r.Formats, formatRow{
			Sink: d.name, title: d.title, Format: name, Events: events, Bridge: side, Cost: ratio(side.CPU, plain.CPU),
		})
	}
}
