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
	"strings"
	"syscall"

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
	// ErrTold marks a failure that has been printed already.
	ErrTold = errors.New("failed")
)

// Main runs a program until it is done, or told to stop by SIGINT or SIGTERM,
// and exits with the code that run returns. A second signal ends it at once.
func Main(run func(ctx context.Context, args []string, stdout, stderr io.Writer) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// Once the first signal has arrived, the next one has its default effect.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
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
	case errors.Is(err, ErrTold):
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
