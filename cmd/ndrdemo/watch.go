package main

import (
	"context"
	"sync"
	"time"

	"ndrbridge/admin"
	"ndrbridge/transform"
)

// watch lets the appliance change until ctx is cancelled or the time is over, gives the
// bridge time to deliver the rest, and shows the progress. It returns the error of a part
// that failed.
func (d *demo) watch(ctx context.Context, control admin.Control) error {
	began := time.Now()
	alive, end := context.WithCancel(ctx)
	defer end()
	if d.lasts > 0 {
		alive, end = context.WithTimeout(ctx, d.lasts)
		defer end()
	}
	var living sync.WaitGroup
	living.Go(func() { d.shown.appliance.Live(alive, rates(d.rate)) })
	living.Go(func() {
		if err := d.project.work(alive); err != nil {
			d.failures <- err
		}
	})
	err := d.show(alive, began, func() bool { return false })
	end()
	living.Wait()
	if err != nil {
		return err
	}

	d.screen.line("The appliance has stopped changing; waiting for the rest to be delivered.")
	rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.patience)
	defer cancel()
	err = d.show(rest, began, func() bool { return d.caughtUp(rest, began, control) })
	d.screen.update(d.progress(began))
	return err
}

// caughtUp reports whether every sink has received everything and no ticket change is in
// flight, which would create another version on the appliance.
func (d *demo) caughtUp(ctx context.Context, began time.Time, control admin.Control) bool {
	if !d.progress(began).caughtUp() { // the tickets sink may still receive events
		return false
	}
	var quiet bool
	var err error
	if d.tickets, quiet, err = d.project.counted(ctx, control); err != nil || !quiet {
		return false
	}
	return d.progress(began).caughtUp()
}

// show prints samples, warnings and the progress until ctx is cancelled or over returns
// true. It returns the error of a part that failed.
func (d *demo) show(ctx context.Context, began time.Time, over func() bool) error {
	const samplesPerUpdate = 3
	update := time.NewTicker(d.screen.interval())
	defer update.Stop()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	wanted := samplesPerUpdate
	for {
		samples := d.samples
		if wanted == 0 {
			samples = nil
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-d.failures:
			return err
		case <-look.C:
			if over() {
				return nil
			}
		case <-update.C:
			d.screen.update(d.progress(began))
			wanted = samplesPerUpdate
		case line := <-d.warnings:
			d.screen.line("the bridge warns: " + printable(line))
		case e := <-samples:
			wanted--
			if err := d.showEvent(e); err != nil {
				return err
			}
		}
	}
}

func (d *demo) showEvent(e transform.Event) error {
	line, err := sample(e)
	if err == nil {
		d.screen.line(line)
	}
	return err
}

// progress returns the current counts.
func (d *demo) progress(began time.Time) progress {
	shown := d.shown.now()
	s := progress{
		elapsed: time.Since(began), detections: countDetections(shown.versions), versions: len(shown.versions),
		entries: len(shown.audit), records: len(shown.records),
	}
	for _, o := range demoSinks {
		s.sinks = append(s.sinks, d.sinkProgress(o, shown))
	}
	return s
}

func (d *demo) sinkProgress(o demoSink, shown exhibit) sinkProgress {
	s := sinkProgress{demoSink: o, waiting: shown.waiting(d.arrivals.ledger, o.name)}
	s.events, s.duplicates = d.arrivals.count(o.name)
	return s
}
