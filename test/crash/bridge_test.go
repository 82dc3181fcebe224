package crash

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/test/slowtest"
)

// buildBridge builds the bridge and returns the command line that runs it.
func buildBridge(t *testing.T) (program []string) {
	t.Helper()
	return []string{build(t, "ndrbridge/cmd/ndrbridge"), "run"}
}

// buildVersion builds a bridge that has a version and returns the command line that runs it.
func buildVersion(t *testing.T, version string) (program []string) {
	t.Helper()
	return []string{build(t, "ndrbridge/cmd/ndrbridge", "-ldflags=-X main.version="+version), "run"}
}

// buildFaulty builds a bridge with a fault and returns the command line that runs it.
func buildFaulty(t *testing.T, fault string) (program []string) {
	t.Helper()
	return []string{build(t, "ndrbridge/test/crash/faulty"), "--fault=" + fault}
}

func build(t *testing.T, command string, flags ...string) (program string) {
	t.Helper()
	slowtest.Skip(t)
	program = filepath.Join(t.TempDir(), "ndrbridge")
	args := slices.Concat([]string{"build", "-o", program}, flags, []string{command})
	output, err := exec.Command("go", args...).CombinedOutput()
	require.NoError(t, err, "build", command, string(output))
	return program
}

// bridge is a running process.
type bridge struct {
	command *exec.Cmd
	output  *output
}

func (s *scene) start(t *testing.T) *bridge {
	t.Helper()
	return startBridge(t, s.program, s.config)
}

func startBridge(t *testing.T, program []string, config string) *bridge {
	t.Helper()
	b := &bridge{command: exec.Command(program[0], append(program[1:len(program):len(program)], "--config", config)...), output: new(output)}
	b.command.Stdout, b.command.Stderr = b.output, b.output
	require.NoError(t, b.command.Start())
	t.Cleanup(func() { _ = b.command.Process.Kill() }) // if the test fails before it ends
	return b
}

// kill kills the process. It fails if the process had already ended by itself, unless
// diskFull is set and the process ended at its start because the disk was full.
func (b *bridge) kill(t *testing.T, diskFull bool) {
	t.Helper()
	err := b.command.Process.Kill()
	require.True(t, err == nil || errors.Is(err, os.ErrProcessDone), err)
	_ = b.command.Wait() // ProcessState is checked instead
	status, ok := b.command.ProcessState.Sys().(syscall.WaitStatus)
	if killed := ok && status.Signaled(); !killed && !(diskFull && b.output.has(syscall.EFBIG.Error())) {
		t.Fatalf("the bridge ended by itself: %s\n%s", b.command.ProcessState, b.output)
	}
}

// terminate ends the process with SIGTERM.
func (b *bridge) terminate(t *testing.T) {
	t.Helper()
	require.NoError(t, b.command.Process.Signal(syscall.SIGTERM))
	require.NoError(t, b.command.Wait(), "the bridge stopped with", b.output)
	assert.True(t, !b.output.has("panic") && !b.output.has("DATA RACE"), "the bridge wrote", b.output)
}
