// Package commandline runs the command lines of this project's programs. It handles
// signals, prints errors and chooses the exit code.
package commandline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	ExitDone   = 0
	ExitFailed = 1
	ExitUsage  = 2
	ExitConfig = 78 // EX_CONFIG of sysexits.h, which systemd names CONFIG
)

var (
	// ErrUsage marks an invalid command line. Run returns ExitUsage for it.
	ErrUsage = errors.New("wrong usage")
	// ErrReported marks a failure that was printed already. Run does not print it.
	ErrReported = errors.New("failed")
)

// ConfigError is an error of a configuration, for which Run returns ExitConfig.
type ConfigError struct{ Err error }

// Error returns the text of the error.
func (e *ConfigError) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e *ConfigError) Unwrap() error { return e.Err }

// Main calls run and exits with the code that it returns. SIGINT or SIGTERM cancels its
// ctx. A second signal ends the process immediately. If run does not return within the
// grace period after the first signal, the process exits with ExitFailed; see SetGrace.
func Main(run func(ctx context.Context, args []string, stdout, stderr io.Writer) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	g := new(grace)
	g.lasts.Store(int64(usualGrace))
	ctx = context.WithValue(ctx, graceKey{}, g)
	context.AfterFunc(ctx, func() {
		stop() // once the first signal has arrived, the next one has its default effect
		g.watch(time.Now())
	})
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// usualGrace is the default grace period.
const usualGrace = 10 * time.Second

type graceKey struct{}

// grace is how long run may continue after the first signal.
type grace struct{ lasts atomic.Int64 }

// SetGrace sets how long run may take to return after a signal. ctx must be the one that
// Main passed to run, or derived from it; otherwise SetGrace does nothing. It may be
// called at any time and repeatedly.
func SetGrace(ctx context.Context, lasts time.Duration) {
	if g, ok := ctx.Value(graceKey{}).(*grace); ok {
		g.lasts.Store(int64(lasts))
	}
}

// watch ends the process when the grace period since begun is over. It never returns.
func (g *grace) watch(begun time.Time) {
	for {
		lasts := time.Duration(g.lasts.Load())
		left := time.Until(begun.Add(lasts))
		if left > 0 {
			time.Sleep(left)
			continue
		}
		printed := make(chan struct{})
		go func() { // writing to standard error may block
			fmt.Fprintf(os.Stderr, "%s: still running %s after the signal; exiting without completing the shutdown\n", filepath.Base(os.Args[0]), lasts)
			close(printed)
		}()
		select {
		case <-printed:
		case <-time.After(50 * time.Millisecond):
		}
		os.Exit(ExitFailed)
	}
}

// Run executes the command with args, prints its error to stderr, and returns the exit
// code.
func Run(ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetFlagErrorFunc(flagError)
	root.DisableSuggestions = true // unknownCommand makes them
	cmd, err := root.ExecuteContextC(ctx)
	if name := ""; err != nil {
		if n, _ := fmt.Sscanf(err.Error(), "unknown command %q", &name); n == 1 { // cobra's error has no type
			err = unknownCommand(root, name)
		}
	}
	failed := ExitFailed
	if _, ok := errors.AsType[*ConfigError](err); ok {
		failed = ExitConfig
	}
	switch {
	case err == nil:
		return ExitDone
	case errors.Is(err, ErrReported):
		return failed
	case errors.Is(err, ErrUsage):
		fmt.Fprintf(stderr, "%s: %v\n%sSee %s --help.\n", root.Name(), err, dashAdvice(cmd, args), cmd.CommandPath())
		return ExitUsage
	default:
		fmt.Fprintf(stderr, "%s: %v\n", root.Name(), err)
		return failed
	}
}

// Close calls close and joins its error to *err. Defer it in a command.
func Close(close func() error, err *error) { *err = errors.Join(*err, close()) }
