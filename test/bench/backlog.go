package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"ndrbridge/test/process"
)

// backlogRow is a run of the bridge with a state.
type backlogRow struct {
	Run    string  `json:"run"`
	Events int     `json:"events"`        // committed to the state by its end
	Open   float64 `json:"open_seconds"`  // from the start of the process until its admin interface answers
	Ready  float64 `json:"ready_seconds"` // and until /readyz does
	// Seconds is the time until the run's purpose was achieved.
	Seconds  float64 `json:"seconds"`
	Anon     int64   `json:"rss_anon,omitempty"` // the highest of the run
	Standing int64   `json:"rss_anon_standing,omitempty"`
	File     int64   `json:"state_bytes"` // at its end
}

const (
	backlogDetections = 1_000_000
	backlogMore       = 200_000
	// backlogPatience is the time limit of each run.
	backlogPatience = 10 * time.Minute
	// standing is how long a run continues after its purpose was achieved.
	standing = 250 * time.Millisecond
)

// The webhooks of the backlog measurement, sink-0 and sink-1.
const (
	liveSink = iota
	deadSink
)

// backlogs measures a large backlog.
func (b *bench) backlogs(ctx context.Context, r *report) (err error) {
	r.Backlog, err = b.backlog(ctx, backlogDetections, backlogMore)
	return err
}

// backlog accumulates n events for a sink whose connections are refused, beside a working
// one, restarts the bridge with that state after a kill and after a clean shutdown, and then
// lets the sink receive them and further events. Delivered events are not retained, so the
// state contains only events that the sink has yet to receive.
func (b *bench) backlog(ctx context.Context, n, more int) (rows []backlogRow, err error) {
	dir, err := os.MkdirTemp(b.dir, "run-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	bytes := max(int64(n)*int64(b.size)*2, 16<<20)
	if err := space(dir, bytes); err != nil {
		return nil, err
	}
	url, stop, err := b.startAppliance(ctx, n, time.Duration(n)*idleSpacing)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	other, stopOther, err := b.startAppliance(ctx, more, time.Duration(more)*idleSpacing)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stopOther()) }()
	receiver, err := receiveHTTP(dir)
	if err != nil {
		return nil, err
	}
	defer receiver.stop()
	refusing := httptest.NewServer(nil)
	refusing.Close()
	live, dead := receiver.address, refusing.URL

	hq, branch := applianceAt(url, map[string]any{}), applianceAt(other, map[string]any{})
	branch["name"] = "branch"
	nothing := func(context.Context, *service) error { return nil }
	trimmed := func(events, sinks int) func(context.Context, *service) error {
		return func(ctx context.Context, s *service) error {
			if err := s.await(ctx, events, sinks); err != nil {
				return err
			}
			return s.awaitTrimmed(ctx)
		}
	}
	for _, run := range []struct {
		title      string
		events     int // in the state at its end
		hook       string
		appliances []map[string]any
		done       func(context.Context, *service) error
		killed     bool
	}{
		{"it piles up", n, dead, []map[string]any{hq}, func(ctx context.Context, s *service) error { return s.await(ctx, n, 1) }, true},
		{"after a kill", n, dead, []map[string]any{hq}, nothing, false},
		{"after an orderly stop", n, dead, []map[string]any{hq}, nothing, false},
		{"it is delivered", n, live, []map[string]any{hq}, trimmed(n, 1), false},
		{"more comes", n + more, live, []map[string]any{hq, branch}, trimmed(more, 2), false},
	} {
		b.say("a backlog of %d events: %s", n, run.title)
		sinks := []map[string]any{liveSink: webhookBatch(batch).sink(live), deadSink: webhookBatch(batch).sink(run.hook)}
		c := configuration(dir, sinks, run.appliances...)
		c["journal"] = map[string]any{"max_bytes": fmt.Sprintf("%dMiB", bytes>>20), "retain": 0}
		row, err := b.overState(ctx, dir, c, run.done, run.killed)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", run.title, err)
		}
		row.Run, row.Events = run.title, run.events
		rows = append(rows, row)
	}
	got, err := receiver.count()
	if want := int64(2 * (n + more)); err == nil && got != want {
		err = fmt.Errorf("the receiver has %d events of both sinks, want %d", got, want)
	}
	return rows, err
}

// overState runs the bridge with the state in a directory until done returns, and for
// standing longer.
func (b *bench) overState(ctx context.Context, dir string, c map[string]any, done func(context.Context, *service) error, killed bool) (row backlogRow, err error) {
	ctx, cancel := context.WithTimeout(ctx, backlogPatience)
	defer cancel()
	began := time.Now()
	s, err := b.startBridge(ctx, dir, c)
	if err != nil {
		return row, err
	}
	if err = s.awaitOpen(ctx); err == nil {
		row.Open = time.Since(began).Seconds()
		err = s.awaitReady(ctx)
		row.Ready = time.Since(began).Seconds()
	}
	if err == nil {
		err = done(ctx, s)
		row.Seconds = time.Since(began).Seconds()
	}
	if err == nil {
		err = sleep(ctx, standing)
	}
	now, _ := process.Memory(s.cmd.Process.Pid)
	if killed {
		_ = s.cmd.Process.Kill() // or it has ended before
		<-s.ended
	}
	_, m, stopErr := s.stop()
	if err == nil && !killed {
		err = stopErr
	}
	if err != nil {
		return row, err
	}
	row.Anon, row.Standing = m.anon, now
	info, err := os.Stat(filepath.Join(dir, "state.db"))
	if err != nil {
		return row, err
	}
	row.File = info.Size()
	return row, nil
}

// space returns an error if a directory's disk has less than twice as many free bytes: a
// state is larger than its events.
func space(dir string, bytes int64) error {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		return fmt.Errorf("space in %s: %w", dir, err)
	}
	if left := int64(disk.Bavail) * int64(disk.Bsize); left < 2*bytes {
		return fmt.Errorf("%s has %d MiB left, and %d MiB are needed; choose another folder with TMPDIR", dir, left>>20, 2*bytes>>20)
	}
	return nil
}

// awaitReady waits until an open bridge is ready.
func (s *service) awaitReady(ctx context.Context) error {
	return s.until(ctx, readyEvery, func() (bool, error) {
		answer, err := s.get(ctx, "/readyz")
		if err != nil {
			return false, err
		}
		return answer.StatusCode == http.StatusOK, answer.Body.Close()
	})
}

// readyEvery is the precision of the time until a bridge is ready.
const readyEvery = 5 * time.Millisecond

// awaitTrimmed waits until the journal is empty.
func (s *service) awaitTrimmed(ctx context.Context) error {
	return s.until(ctx, askEvery, func() (bool, error) {
		samples, err := s.samples(ctx)
		events, found := samples["ndrbridge_journal_events"]
		return found && events == 0, err
	})
}
