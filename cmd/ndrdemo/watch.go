package main

import (
	"context"
	"sync"
	"time"

	"ndrbridge/admin"
	"ndrbridge/transform"
)

// watch lets things happen until ctx ends or the time is over, gives the bridge
// the time to deliver the rest, and shows all of it. The error is that of a part
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

	d.screen.line("Nothing more happens; waiting for the rest to arrive.")
	rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.patience)
	defer cancel()
	err = d.show(rest, began, func() bool { return d.caughtUp(rest, began, control) })
	d.screen.update(d.standing(began))
	return err
}

// caughtUp reports whether everything has arrived, and nothing is on its way from the
// tickets to the appliance, which would show another version then.
func (d *demo) caughtUp(ctx context.Context, began time.Time, control admin.Control) bool {
	if !d.standing(began).caughtUp() { // else the sink of tickets may have more to come
		return false
	}
	var quiet bool
	var err error
	if d.tickets, quiet, err = d.project.counted(ctx, control); err != nil || !quiet {
		return false
	}
	return d.standing(began).caughtUp()
}

// show shows what goes on until ctx ends or over says so.
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
			d.screen.update(d.standing(began))
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

// standing counts what there is now.
func (d *demo) standing(began time.Time) progress {
	shown := d.shown.now()
	s := progress{
		elapsed: time.Since(began), detections: countDetections(shown.versions), versions: len(shown.versions),
		entries: len(shown.audit), records: len(shown.records),
	}
	for _, o := range demoSinks {
		s.sinks = append(s.sinks, d.sinkStanding(o, shown))
	}
	return s
}

func (d *demo) sinkStanding(o demoSink, shown exhibit) sinkStanding {
	s := sinkStanding{demoSink: o, waiting: shown.waiting(d.arrivals.ledger, o.name)}
	s.events, s.duplicates = d.arrivals.count(o.name)
	return s
}
