// Package commandline runs the command lines of this project's programs: signals,
// exit codes, and how errors are told.
package commandline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// The exit codes.
const (
	ExitDone   = 0
	ExitFailed = 1
	ExitUsage  = 2
)

var (
	// ErrUsage marks the error of a command line that cannot be understood.
	ErrUsage = errors.New("wrong usage")
	// ErrReported marks a failure that has been printed already.
	ErrReported = errors.New("failed")
)

// Main runs a program until it is done, or SIGINT or SIGTERM ends its ctx, and exits
// with the code that run returns. A second signal ends it at once. So does, with
// ExitFailed, a run that has not returned within its grace after the first: see
// SetGrace.
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

// usualGrace is how long a command may take to end after a signal, unless it says
// otherwise.
const usualGrace = 10 * time.Second

type graceKey struct{}

// grace is how long a run may go on after the first signal.
type grace struct{ lasts atomic.Int64 }

// SetGrace says how long the run under ctx, which is Main's or made of it, may take to
// end after a signal. Elsewhere it does nothing. It may be called at any time, again
// too.
func SetGrace(ctx context.Context, lasts time.Duration) {
	if g, ok := ctx.Value(graceKey{}).(*grace); ok {
		g.lasts.Store(int64(lasts))
	}
}

// watch ends the process when the grace since begun is over.
func (g *grace) watch(begun time.Time) {
	for {
		lasts := time.Duration(g.lasts.Load())
		left := time.Until(begun.Add(lasts))
		if left > 0 {
			time.Sleep(left)
			continue
		}
		printed := make(chan struct{})
		go func() { // standard error may be what hangs
			fmt.Fprintf(os.Stderr, "%s: it has not ended %s after the signal, and is ended as it is\n", filepath.Base(os.Args[0]), lasts)
			close(printed)
		}()
		select {
		case <-printed:
		case <-time.After(50 * time.Millisecond):
		}
		os.Exit(ExitFailed)
	}
}

// Run runs a command with arguments, tells its error on stderr, and returns the
// exit code.
func Run(ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return fmt.Errorf("%w: %w", ErrUsage, err) })
	switch cmd, err := root.ExecuteContextC(ctx); {
	case err == nil:
		return ExitDone
	case errors.Is(err, ErrReported):
		return ExitFailed
	case errors.Is(err, ErrUsage), strings.HasPrefix(err.Error(), "unknown command"): // cobra's own has no type
		fmt.Fprintf(stderr, "%s: %v\nSee %s --help.\n", root.Name(), err, cmd.CommandPath())
		return ExitUsage
	default:
		fmt.Fprintf(stderr, "%s: %v\n", root.Name(), err)
		return ExitFailed
	}
}

// NoArgs refuses arguments, as cobra.NoArgs does, with an ErrUsage.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%w: %s takes no argument, and %q was given", ErrUsage, cmd.CommandPath(), args[0])
	}
	return nil
}

// Close calls close at the end of a command, whose error it joins.
func Close(close func() error, err *error) { *err = errors.Join(*err, close()) }
