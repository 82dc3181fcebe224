package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// patience is the time limit of one run of a drain.
const patience = 3 * time.Minute

// bench contains the state shared by all measurements.
type bench struct {
	settings
	progress  io.Writer
	dir       string // temporary
	self      string // the path of this binary
	bridge    string // the path of ndrbridge
	appliance string // the path of ndrappliance
}

// newBench creates the temporary directory and builds the measured programs in it. The
// caller must call close.
func newBench(ctx context.Context, s settings, progress io.Writer) (*bench, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ndrbridge-bench-")
	if err != nil {
		return nil, err
	}
	b := &bench{
		settings: s, progress: progress, dir: dir, self: self,
		bridge: filepath.Join(dir, "ndrbridge"), appliance: filepath.Join(dir, "ndrappliance"),
	}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", dir+string(filepath.Separator), "ndrbridge/cmd/ndrbridge", "ndrbridge/cmd/ndrappliance")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("build the programs: %w: %s", err, out), b.close())
	}
	return b, nil
}

// close removes the temporary directory.
func (b *bench) close() error { return os.RemoveAll(b.dir) }

func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.progress, format+"\n", args...) }

// report runs the requested measurements.
func (b *bench) report(ctx context.Context) (*report, error) {
	r := newReport(b.settings)
	if err := b.drainAll(ctx, r); err != nil {
		return nil, err
	}
	var err error
	if b.selects(nameLatency) {
		for _, beside := range []string{aloneAppliance, deadAppliance, refusingAppliance} {
			b.say("latency, %s", beside)
			row, err := b.latency(ctx, beside)
			if err != nil {
				return nil, fmt.Errorf("latency, %s: %w", beside, err)
			}
			r.Latency = append(r.Latency, row)
		}
	}
	if b.selects(nameIdle) {
		for _, of := range idleCases {
			b.say("idle polls with %d known detections that changed within %s", of.known, of.over)
			poll, err := b.idlePoll(ctx, of)
			if err != nil {
				return nil, fmt.Errorf("idle polls: %w", err)
			}
			r.IdlePolls = append(r.IdlePolls, poll)
		}
	}
	if b.selects(nameRecords) {
		b.say("a backlog of %d records", backlogRecords)
		if r.Records, err = b.records(ctx, backlogRecords); err != nil {
			return nil, fmt.Errorf("records: %w", err)
		}
	}
	if b.selects(nameBacklog) {
		if r.Backlog, err = b.backlog(ctx, backlogDetections, backlogMore); err != nil {
			return nil, fmt.Errorf("backlog: %w", err)
		}
	}
	if b.selects(nameFleet) {
		sizes := fleets
		if b.settings.fleet > 0 {
			sizes = []int{b.settings.fleet}
		}
		for _, n := range sizes {
			b.say("a fleet of %d", n)
			row, err := b.fleet(ctx, n)
			if err != nil {
				return nil, fmt.Errorf("a fleet of %d: %w", n, err)
			}
			r.Fleets = append(r.Fleets, *row)
		}
	}
	return r, nil
}

// drainAll measures the drains.
func (b *bench) drainAll(ctx context.Context, r *report) error {
	var wanted []drain
	for _, d := range drains {
		if b.selects(d.name) {
			wanted = append(wanted, d)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	url, stop, err := b.startAppliance(ctx, b.events, 24*time.Hour)
	if err != nil {
		return err
	}
	err = b.pairs(ctx, r, url, wanted)
	return errors.Join(err, stop())
}

// pairs runs each drain the requested number of times, the bridge and the bare client in
// turn, so that other load on the machine affects both.
func (b *bench) pairs(ctx context.Context, r *report, url string, wanted []drain) error {
	b.say("the events for the bare clients")
	events := filepath.Join(b.dir, "events.jsonl")
	if err := b.keepEvents(ctx, url, events); err != nil {
		return fmt.Errorf("get the events: %w", err)
	}
	if info, err := os.Stat(events); err == nil {
		r.EventBytes = int(info.Size())/b.events - 1
	}
	for _, d := range wanted {
		var bridge, bare []figures
		for n := range b.runs {
			b.say("%s: run %d of %d", d.title, n+1, b.runs)
			f, err := b.receivers(ctx, d, func(ctx context.Context, dir string, addresses []string) (figures, error) {
				return b.drain(ctx, url, d, dir, addresses)
			})
			if err != nil {
				return fmt.Errorf("%s, the bridge: %w", d.title, err)
			}
			bridge = append(bridge, f)
			f, err = b.receivers(ctx, d, func(ctx context.Context, _ string, addresses []string) (figures, error) {
				return b.bareClient(ctx, d, events, addresses)
			})
			if err != nil {
				return fmt.Errorf("%s, the bare client: %w", d.title, err)
			}
			bare = append(bare, f)
		}
		r.add(d, b.events, bridge, bare)
	}
	return nil
}

// keepEvents runs the bridge to write the events to a file.
func (b *bench) keepEvents(ctx context.Context, url, path string) error {
	d := drain{title: "file", targets: []target{fileTarget}}
	_, err := b.receivers(ctx, d, func(ctx context.Context, dir string, addresses []string) (figures, error) {
		f, err := b.drain(ctx, url, d, dir, addresses)
		return f, errors.Join(err, os.Rename(addresses[0], path), os.Symlink(path, addresses[0]))
	})
	return err
}

// receivers runs a drain with new receivers and checks that each received every event once.
func (b *bench) receivers(ctx context.Context, d drain, run func(ctx context.Context, dir string, addresses []string) (figures, error)) (f figures, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	dir, err := os.MkdirTemp(b.dir, "run-")
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	addresses := make([]string, len(d.targets))
	counts := make([]func() (int, error), len(d.targets))
	for i, t := range d.targets {
		if t.receives == "" {
			addresses[i] = filepath.Join(dir, "events.jsonl")
			counts[i] = func() (int, error) { return countFile(addresses[i]) }
			continue
		}
		own := filepath.Join(dir, strconv.Itoa(i))
		if err := os.Mkdir(own, 0o700); err != nil {
			return f, err
		}
		receiver, address, err := talk(command(ctx, b.self, roleReceive, t.receives, own))
		if err != nil {
			return f, err
		}
		defer func() { err = errors.Join(err, receiver.stop()) }()
		addresses[i] = address
		counts[i] = func() (int, error) {
			answer, err := receiver.ask()
			if err != nil {
				return 0, err
			}
			return strconv.Atoi(answer)
		}
	}
	if f, err = run(ctx, dir, addresses); err != nil {
		return f, err
	}
	for i, count := range counts {
		switch n, err := count(); {
		case err != nil:
			return f, err
		case n != b.events:
			return f, fmt.Errorf("receiver %d has %d events, want %d", i, n, b.events)
		}
	}
	return f, nil
}

func countFile(path string) (int, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	n, err := countEvents(file)
	return int(n), err
}

// drain runs the bridge from its start until every sink has delivered every event. Its
// resources are counted until the process has ended.
func (b *bench) drain(ctx context.Context, url string, d drain, dir string, addresses []string) (figures, error) {
	sinks := make([]map[string]any, len(d.targets))
	for i, t := range d.targets {
		sinks[i] = t.sink(addresses[i])
	}
	began := time.Now()
	s, err := b.startBridge(ctx, dir, configuration(dir, sinks, applianceAt(url, map[string]any{})))
	if err != nil {
		return figures{}, err
	}
	err = s.await(ctx, b.events, len(sinks))
	took := time.Since(began)
	cpu, m, stopErr := s.stop()
	return figures{Seconds: took.Seconds(), CPU: cpu.Seconds(), Anon: m.anon, Resident: m.resident}, errors.Join(err, stopErr)
}

// bareClient runs the bare client libraries.
func (b *bench) bareClient(ctx context.Context, d drain, events string, addresses []string) (f figures, err error) {
	c := command(ctx, b.self, append([]string{roleClient, d.name, events}, addresses...)...)
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return f, fmt.Errorf("%w: %s", err, stderr.String())
	}
	return f, json.Unmarshal(out, &f)
}

// startAppliance starts a stand-in appliance with detections whose mod_times are spread over
// the time up to now.
func (b *bench) startAppliance(ctx context.Context, detections int, over time.Duration) (url string, stop func() error, err error) {
	c := command(ctx, b.appliance, "--backlog", strconv.Itoa(detections), "--backlog-over", over.String(), "--size", strconv.Itoa(b.size))
	t, first, err := talk(c)
	if err != nil {
		return "", nil, err
	}
	url, ok := strings.CutPrefix(first, "listening on ")
	stop = func() error {
		_ = c.Cancel() // it does not read its standard input
		return t.stop()
	}
	if !ok {
		return "", nil, errors.Join(fmt.Errorf("the appliance printed %q", first), stop())
	}
	return url, stop, nil
}
