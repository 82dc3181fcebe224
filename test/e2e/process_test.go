//go:build e2e

package e2e

import (
	"bytes"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a program that a test started, in a process group of its own.
type process struct {
	name    string
	command *exec.Cmd
	output  *output
	ended   chan struct{} // closed when the program has ended
}

// start runs a program until it ends, the test ends, or the test's own process
// dies in whatever way.
func start(t testing.TB, command *exec.Cmd) *process {
	t.Helper()
	p := &process{name: command.Args[0], command: command, output: new(output), ended: make(chan struct{})}
	command.Stdout, command.Stderr = p.output, p.output
	contain(command)
	if err := command.Start(); err != nil {
		t.Fatalf("start %s: %v", p.name, err)
	}
	go func() {
		defer close(p.ended)
		_ = command.Wait() // its state tells
	}()
	t.Cleanup(p.kill)
	return p
}

// contain gives a program a process group of its own, and lets it die with the
// test's process.
func contain(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// running reports whether the program has yet to end.
func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// kill ends the program and its children as a crash does, and waits for that.
func (p *process) kill() {
	if p.running() {
		_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL) // or it has just ended
	}
	<-p.ended
}

// succeed waits until the program has done what it was started for.
func (p *process) succeed(t testing.TB, within time.Duration) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(within):
		t.Fatalf("%s has not ended after %v\n%s", p.name, within, p.output.end())
	}
	if !p.command.ProcessState.Success() {
		t.Fatalf("%s: %v\n%s", p.name, p.command.ProcessState, p.output.end())
	}
}

// terminate asks the program to end, and waits until it has, well.
func (p *process) terminate(t testing.TB) {
	t.Helper()
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("end %s: %v\n%s", p.name, err, p.output.end())
	}
	p.succeed(t, time.Minute)
}

// output is what a program has written so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String returns all of it.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// end returns the last of it.
func (o *output) end() string {
	const most = 6_000
	text := o.String()
	return text[max(0, len(text)-most):]
}

// eventually tries until check returns nil, and fails with what it said last
// once the time is over.
func eventually(t testing.TB, within time.Duration, check func() error) {
	t.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(100 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %v", within, err)
		}
	}
}
