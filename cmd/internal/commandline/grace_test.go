//go:build unix

package commandline_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// hangs is the variable that makes a program of this test: it ignores its context.
const hangs = "COMMANDLINE_TEST_HANGS"

func TestMain(m *testing.M) {
	if os.Getenv(hangs) != "" {
		commandline.Main(func(ctx context.Context, _ []string, stdout, _ io.Writer) int {
			commandline.SetGrace(ctx, 100*time.Millisecond)
			fmt.Fprintln(stdout, "running")
			select {}
		})
	}
	os.Exit(m.Run())
}

func TestProgramExitsAfterGracePeriod(t *testing.T) {
	program := exec.CommandContext(t.Context(), os.Args[0])
	program.Env = append(os.Environ(), hangs+"=1")
	var stderr strings.Builder
	program.Stderr = &stderr
	stdout, err := program.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, program.Start())
	_, err = io.ReadFull(stdout, make([]byte, len("running\n")))
	require.NoError(t, err)
	require.NoError(t, program.Process.Signal(syscall.SIGTERM))
	exit := new(exec.ExitError)
	err = program.Wait()
	assert.True(t, errors.As(err, &exit) && exit.ExitCode() == commandline.ExitFailed, err, "want exit code", commandline.ExitFailed)
	assert.Contains(t, stderr.String(), "still running 100ms after the signal", "it printed", &stderr)
}
