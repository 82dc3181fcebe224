package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	standin "ndrbridge/test/appliance"
)

// service is a bridge in a process of its own.
type service struct {
	cmd   *exec.Cmd
	log   serviceLog
	peaks func() memory
	admin string        // the admin interface's URL, once the bridge runs
	ended chan struct{} // closed when the process has ended; err is set then
	err   error
}

// applianceAt returns the configuration of an appliance of which only detections are read,
// from the beginning.
func applianceAt(url string, detections map[string]any) map[string]any {
	detections["start"] = "beginning"
	return map[string]any{
		"name": "hq", "url": url, "api_key": standin.DefaultAPIKey,
		// The default of 5 requests a second would limit the measurement.
		"rate_limit": 10_000,
		"detections": detections,
		"audit":      map[string]any{"enabled": false},
	}
}

// configuration returns the configuration of a bridge with sinks that start at the beginning
// of the journal.
func configuration(dir string, sinks []map[string]any, appliances ...map[string]any) map[string]any {
	for i, s := range sinks {
		s["name"] = fmt.Sprintf("sink-%d", i)
		s["start"] = "beginning"
	}
	return map[string]any{
		"state":      filepath.Join(dir, "state.db"),
		"log":        map[string]any{"format": "json"},
		"admin":      map[string]any{"listen": "127.0.0.1:0"},
		"appliances": appliances,
		"sinks":      sinks,
	}
}

// startBridge starts a bridge with a configuration, which it writes to a file in dir.
func (b *bench) startBridge(ctx context.Context, dir string, configuration map[string]any) (*service, error) {
	text, err := json.Marshal(configuration) // JSON is YAML
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "ndrbridge.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, err
	}
	s := &service{
		cmd:   command(ctx, b.bridge, "run", "--config", path),
		log:   serviceLog{running: make(chan string, 1)},
		ended: make(chan struct{}),
	}
	s.cmd.Stderr = &s.log
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	s.peaks = watch(s.cmd.Process.Pid)
	go func() {
		s.err = s.cmd.Wait()
		close(s.ended)
	}()
	return s, nil
}

// stop ends the bridge and returns the CPU time that it used in total, and its memory.
func (s *service) stop() (cpu time.Duration, m memory, err error) {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // or it has ended before
	<-s.ended
	m = s.peaks()
	if s.err != nil {
		return 0, m, s.log.failure(s.err)
	}
	return s.cmd.ProcessState.UserTime() + s.cmd.ProcessState.SystemTime(), m, nil
}

// askEvery is the interval at which the bridge's metrics are read, which takes it about a
// millisecond.
const askEvery = 100 * time.Millisecond

// awaitOpen waits until the bridge has opened its state and its admin interface answers.
func (s *service) awaitOpen(ctx context.Context) error {
	if s.admin != "" {
		return nil
	}
	select {
	case s.admin = <-s.log.running:
		return nil
	case <-s.ended:
		return s.log.failure(errors.New("the bridge ended at once"))
	case <-ctx.Done():
		return s.log.failure(ctx.Err())
	}
}

// await waits until a number of sinks have delivered a number of events each.
func (s *service) await(ctx context.Context, events, sinks int) error {
	if err := s.awaitOpen(ctx); err != nil {
		return err
	}
	return s.until(ctx, askEvery, func() (bool, error) {
		samples, err := samplesOf(ctx, s.admin)
		done := 0
		for name, n := range samples {
			if strings.HasPrefix(name, `ndrbridge_sink_events_total{result="delivered",`) && n >= float64(events) {
				done++
			}
		}
		return done >= sinks, err
	})
}

// until calls a function at an interval until it returns true, or the bridge or ctx ends.
func (s *service) until(ctx context.Context, every time.Duration, done func() (bool, error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.ended:
			return s.log.failure(errors.New("the bridge ended"))
		case <-ctx.Done():
			return s.log.failure(ctx.Err())
		}
		is, err := done()
		if err != nil {
			return s.log.failure(err)
		}
		if is {
			return nil
		}
	}
}

// samplesOf returns the values of a bridge's metrics by name and labels.
func samplesOf(ctx context.Context, admin string) (map[string]float64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, admin+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	samples := map[string]float64{}
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		line := lines.Text()
		space := strings.LastIndexByte(line, ' ')
		if space < 0 || line[0] == '#' {
			continue
		}
		if samples[line[:space]], err = strconv.ParseFloat(line[space+1:], 64); err != nil {
			return nil, err
		}
	}
	return samples, lines.Err()
}

// serviceLog reads the address of the admin interface from a bridge's log, and keeps the
// last lines.
type serviceLog struct {
	running chan string // receives the address

	mu    sync.Mutex
	found bool
	text  []byte
}

// Write implements io.Writer.
func (l *serviceLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	for line := range bytes.Lines(l.text) {
		var record struct{ Msg, Admin string }
		if !l.found && json.Unmarshal(line, &record) == nil && record.Msg == "running" {
			l.found = true
			l.running <- record.Admin
		}
	}
	const kept = 4 << 10
	l.text = l.text[max(0, len(l.text)-kept):]
	return len(b), nil
}

// failure adds the last lines of the log to an error.
func (l *serviceLog) failure(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Errorf("%w; the bridge's log ends with:\n%s", err, bytes.TrimSpace(l.text))
}
