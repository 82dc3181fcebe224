package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	standin "ndrbridge/test/appliance"
)

// service is a bridge in a process of its own.
type service struct {
	cmd   *exec.Cmd
	peaks func() memory
	admin string        // the admin interface's URL
	open  chan struct{} // closed when the bridge runs; admin is set then
	log   []string      // the last lines
	err   error
	ended chan struct{} // closed when the process has ended; log and err are set then
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
	s := &service{cmd: command(ctx, b.bridge, "run", "--config", path), open: make(chan struct{}), ended: make(chan struct{})}
	log, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	s.peaks = watch(s.cmd.Process.Pid)
	go s.follow(log)
	return s, nil
}

// follow reads the log until the process has ended.
func (s *service) follow(log io.Reader) {
	const kept = 20
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var record struct{ Msg, Admin string }
		if s.admin == "" && json.Unmarshal(lines.Bytes(), &record) == nil && record.Msg == "running" {
			s.admin = record.Admin
			close(s.open)
		}
		s.log = append(s.log[max(0, len(s.log)-kept+1):], lines.Text())
	}
	s.err = s.cmd.Wait()
	close(s.ended)
}

// whileRunning returns a context that is cancelled when one of the bridges ends, too. The
// caller must call stop.
func whileRunning(ctx context.Context, services ...*service) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	for _, s := range services {
		go func() {
			select {
			case <-s.ended:
				cancel(errors.New("the bridge ended"))
			case <-ctx.Done():
			}
		}()
	}
	return ctx, func() { cancel(nil) }
}

// stop ends the bridge and returns the CPU time that it used in total, and its memory.
func (s *service) stop() (cpu time.Duration, m memory, err error) {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // or it has ended before
	<-s.ended
	m = s.peaks()
	if s.err != nil {
		return 0, m, s.failure(s.err)
	}
	return s.cmd.ProcessState.UserTime() + s.cmd.ProcessState.SystemTime(), m, nil
}

// failure ends the bridge and adds the last lines of its log to an error.
func (s *service) failure(err error) error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	<-s.ended
	return fmt.Errorf("%w; the bridge's log ends with:\n%s", err, strings.Join(s.log, "\n"))
}

// askEvery is the interval at which the bridge's metrics are read, which takes it about a
// millisecond.
const askEvery = 100 * time.Millisecond

// awaitOpen waits until the bridge has opened its state and its admin interface answers.
func (s *service) awaitOpen(ctx context.Context) error {
	select {
	case <-s.open:
		return nil
	case <-s.ended:
		return s.failure(errors.New("the bridge ended at once"))
	case <-ctx.Done():
		return s.failure(ctx.Err())
	}
}

// await waits until a number of sinks have delivered a number of events each.
func (s *service) await(ctx context.Context, events, sinks int) error {
	if err := s.awaitOpen(ctx); err != nil {
		return err
	}
	return s.until(ctx, askEvery, func() (bool, error) {
		samples, err := s.samples(ctx)
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
			return s.failure(errors.New("the bridge ended"))
		case <-ctx.Done():
			return s.failure(ctx.Err())
		}
		switch is, err := done(); {
		case err != nil:
			return s.failure(err)
		case is:
			return nil
		}
	}
}

// get requests a path of the admin interface.
func (s *service) get(ctx context.Context, path string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.admin+path, nil)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(r)
}

// samples returns the values of the metrics by name and labels.
func (s *service) samples(ctx context.Context) (map[string]float64, error) {
	answer, err := s.get(ctx, "/metrics")
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
