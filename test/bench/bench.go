package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"ndrbridge/test/natscluster"
	"ndrbridge/test/process"
)

// patience is the time limit of most runs.
const patience = 3 * time.Minute

// bench contains the state shared by all measurements.
type bench struct {
	settings
	progress  io.Writer
	dir       string // temporary
	self      string // the path of this binary
	bridge    string // the path of ndrbridge
	appliance string // the path of ndrappliance
	server    string // the path of the NATS server
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
	if s.selects("cluster") {
		if b.server, err = natscluster.Build(ctx, dir); err != nil {
			return nil, errors.Join(err, b.close())
		}
	}
	return b, nil
}

// close removes the temporary directory.
func (b *bench) close() error { return os.RemoveAll(b.dir) }

func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.progress, format+"\n", args...) }

// measurements are those other than drains.
var measurements = []struct {
	name string
	run  func(b *bench, ctx context.Context, r *report) error
}{
	{"formats", (*bench).formats},
	{"latency", (*bench).latencies}, {"idle", (*bench).idlePolls}, {"records", (*bench).records},
	{"backlog", (*bench).backlogs}, {"fleet", (*bench).fleets},
	{"cluster", (*bench).clusters},
	{"follow-ups", (*bench).followUps},
}

// report runs the requested measurements.
func (b *bench) report(ctx context.Context) (*report, error) {
	r := newReport(b.settings)
	if err := b.drains(ctx, r); err != nil {
		return nil, err
	}
	for _, m := range measurements {
		if !b.selects(m.name) {
			continue
		}
		if err := m.run(b, ctx, r); err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return r, nil
}

// run calls f with a directory of its own and a time limit.
func (b *bench) run(ctx context.Context, limit time.Duration, f func(ctx context.Context, dir string) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	dir, err := os.MkdirTemp(b.dir, "run-")
	if err != nil {
		return err
	}
	return errors.Join(f(ctx, dir), os.RemoveAll(dir))
}

// startAppliance starts a stand-in appliance with detections whose mod_times are spread over
// the time up to now, and with further flags.
func (b *bench) startAppliance(ctx context.Context, detections int, over time.Duration, flags ...string) (url string, stop func() error, err error) {
	c := command(ctx, b.appliance, append(flags, "--backlog", strconv.Itoa(detections), "--backlog-over", over.String(), "--size", strconv.Itoa(b.size))...)
	var stderr strings.Builder
	c.Stderr = &stderr
	stdout, err := c.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := c.Start(); err != nil {
		return "", nil, err
	}
	stop = func() error {
		_ = c.Cancel() // or it has ended before
		if err := c.Wait(); err != nil {
			return fmt.Errorf("%s: %w: %s", c, err, strings.TrimSpace(stderr.String()))
		}
		return nil
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if !ok {
		return "", nil, errors.Join(fmt.Errorf("the appliance printed %q: %w", line, err), stop())
	}
	return url, stop, nil
}

// command returns a command that is sent SIGTERM when ctx is done and killed if it does not
// end. The caller that starts it must wait for it.
func command(ctx context.Context, path string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, path, args...)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 10 * time.Second
	// A bridge reads its configuration from the environment too.
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "NDRBRIDGE_") {
			c.Env = append(c.Env, variable)
		}
	}
	return c
}

// memory is the peak memory of a process, in bytes.
type memory struct {
	anon     int64 // RssAnon, as sampled
	resident int64 // VmHWM, including mapped files
}

// watch samples the memory of a process until the returned function is called, which returns
// the peaks.
func watch(pid int) (peaks func() memory) {
	var (
		m        memory
		sampling sync.WaitGroup
	)
	end := make(chan struct{})
	sampling.Go(func() {
		tick := time.NewTicker(25 * time.Millisecond)
		defer tick.Stop()
		for {
			anon, resident := process.Memory(pid)
			m.anon, m.resident = max(m.anon, anon), max(m.resident, resident)
			select {
			case <-tick.C:
			case <-end:
				return
			}
		}
	})
	return func() memory {
		close(end)
		sampling.Wait()
		return m
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
