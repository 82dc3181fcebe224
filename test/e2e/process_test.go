//go:build e2e

package e2e

import (
	"bytes"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"ndrbridge/test/require"
)

// process is a program started by a test, in a process group of its own.
type process struct {
	name    string
	command *exec.Cmd
	output  *output
	ended   chan struct{} // closed when the program has ended
}

// start runs a program until it ends, the test ends, or the test's own process dies.
func start(t testing.TB, command *exec.Cmd) *process {
	t.Helper()
	p := &process{name: command.Args[0], command: command, output: new(output), ended: make(chan struct{})}
	command.Stdout, command.Stderr = p.output, p.output
	contain(command)
	require.NoError(t, command.Start(), "start", p.name)
	go func() {
		defer close(p.ended)
		_ = command.Wait() // ProcessState is checked instead
	}()
	t.Cleanup(p.kill)
	return p
}

// contain gives a program a process group of its own and makes it die with the test's
// process.
func contain(command *exec.Cmd) {
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Setpgid, command.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
}

// running reports whether the program is running.
func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// kill kills the program and its children and waits for their end.
func (p *process) kill() {
	if p.running() {
		_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL) // it may have ended
	}
	<-p.ended
}

// succeed waits for the program to exit with success.
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

// terminate sends SIGTERM and waits for the program to exit with success.
func (p *process) terminate(t testing.TB) {
	t.Helper()
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("end %s: %v\n%s", p.name, err, p.output.end())
	}
	p.succeed(t, time.Minute)
}

// output collects the output of a program.
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

// String returns the whole output.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// end returns the end of the output.
func (o *output) end() string {
	const most = 6_000
	text := o.String()
	return text[max(0, len(text)-most):]
}

// eventually calls check until it returns nil. When the time is over, it fails with check's
// last error.
func eventually(t testing.TB, within time.Duration, check func() error) {
	t.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(100 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		require.True(t, !time.Now().After(deadline), within, err)
	}
}
