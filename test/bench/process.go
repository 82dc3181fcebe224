package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"ndrbridge/test/process"
)

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

// talker is a process that prints a line when it has started and for each line of its
// standard input. It ends at the end of its standard input, or by a signal.
type talker struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Scanner
	stderr strings.Builder
}

// talk starts a talker and returns its first line.
func talk(cmd *exec.Cmd) (*talker, string, error) {
	t := &talker{cmd: cmd}
	cmd.Stderr = &t.stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if t.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, "", err
	}
	t.stdout = bufio.NewScanner(stdout)
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	first, err := t.line()
	if err != nil {
		return nil, "", errors.Join(err, t.stop())
	}
	return t, first, nil
}

func (t *talker) line() (string, error) {
	if !t.stdout.Scan() {
		return "", fmt.Errorf("%s: no output", t.cmd)
	}
	return t.stdout.Text(), nil
}

// ask sends an empty line and returns the answer.
func (t *talker) ask() (string, error) {
	if _, err := io.WriteString(t.stdin, "\n"); err != nil {
		return "", err
	}
	return t.line()
}

// stop ends the process and waits for it.
func (t *talker) stop() error {
	t.stdin.Close()
	if err := t.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w: %s", t.cmd, err, strings.TrimSpace(t.stderr.String()))
	}
	return nil
}

// cpuTimeOf returns the CPU time, user and system, that a process has used so far; 0 on
// systems other than Linux.
func cpuTimeOf(pid int) time.Duration {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	_, behind, _ := strings.Cut(string(stat), ") ") // the name may contain spaces
	fields := strings.Fields(behind)
	const user, system = 11, 12
	if len(fields) <= system {
		return 0
	}
	const tick = 10 * time.Millisecond // of the kernel's interface
	u, _ := strconv.Atoi(fields[user])
	s, _ := strconv.Atoi(fields[system])
	return time.Duration(u+s) * tick
}

// memory is the peak memory of a process, in bytes.
type memory struct {
	anon     int64 // RssAnon, as sampled
	resident int64 // VmHWM, including mapped files
}

const sampleEvery = 25 * time.Millisecond

// watch samples the memory of a process until the returned function is called, which returns
// the peaks.
func watch(pid int) (peaks func() memory) {
	var (
		m        memory
		sampling sync.WaitGroup
	)
	end := make(chan struct{})
	sampling.Go(func() {
		tick := time.NewTicker(sampleEvery)
		defer tick.Stop()
		for {
			m.sample(pid)
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

// sample reads the memory of a running process.
func (m *memory) sample(pid int) {
	anon, resident := process.Memory(pid)
	m.anon, m.resident = max(m.anon, anon), max(m.resident, resident)
}
