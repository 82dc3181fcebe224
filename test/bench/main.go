// Command bench measures the bridge on the machine that it runs on: how fast a
// backlog of detections drains to each kind of sink, beside the bare client
// library with the same events; how long an event is under way; what a poll
// costs when nothing is new; how a backlog of records is read; and what a backlog
// behind a sink that is down costs, in time to start, in memory and on the disk.
//
//	go run ./test/bench
//	go run ./test/bench --only kafka,nats --runs 5
//
// A drain lasts from the start of the bridge's process, which has no state yet,
// until its metrics tell that every event is delivered. Its processor time is
// that of the whole process, start and stop included. The bare client has its
// events in memory, made and encoded, and is measured while it sends. Every
// receiver is asked whether it has got each event once.
//
// The appliance, the bridge, the receivers and the bare clients are processes of
// their own, on loopback and free ports. All of them end with the command, and
// nothing is left on the disk.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// The first arguments with which the command runs itself.
const (
	roleReceive = "receive"
	roleClient  = "client"
)

// errUsage marks a command line that cannot be understood.
var errUsage = errors.New("wrong usage")

// errInterrupted stands for all that fails when a signal has ended the processes.
var errInterrupted = errors.New("interrupted")

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run runs the command line and returns the exit code: 0 for done, 1 for failed,
// 2 for wrong usage.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var err error
	switch {
	case len(args) > 0 && args[0] == roleReceive:
		err = receive(args[1:], stdin, stdout)
	case len(args) > 0 && args[0] == roleClient:
		err = client(args[1:], stdout)
	default:
		err = measure(args, stdout, stderr)
	}
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return 2
	default:
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return 1
	}
}

// settings are what the command line says.
type settings struct {
	events int // in a drain
	size   int // of a detection, in bytes of JSON
	runs   int // of each drain
	only   []string
	fleet  int
	json   bool
}

// The names of the measurements beside the drains.
const (
	nameLatency = "latency"
	nameIdle    = "idle"
	nameRecords = "records"
	nameBacklog = "backlog"
	nameFleet   = "fleet"
)

func parse(args []string, stderr io.Writer) (settings, error) {
	var s settings
	var only string
	names := []string{}
	for _, d := range drains {
		names = append(names, d.name)
	}
	names = append(names, nameLatency, nameIdle, nameRecords, nameBacklog, nameFleet)

	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&s.events, "events", 100_000, "detections in a backlog")
	f.IntVar(&s.size, "size", 2000, "bytes of JSON that a detection has, about; at least 1000")
	f.IntVar(&s.runs, "runs", 3, "how often each drain is run")
	f.StringVar(&only, "only", "", "measure these alone, by comma: "+strings.Join(names, ", "))
	f.IntVar(&s.fleet, "fleet", 0, "measure a fleet of so many appliances alone, in place of 1, 50, 200 and 1000")
	f.BoolVar(&s.json, "json", false, "print JSON instead of tables")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return s, err
		}
		return s, fmt.Errorf("%w: %w", errUsage, err)
	}
	switch {
	case f.NArg() > 0:
		return s, fmt.Errorf("%w: no argument is taken, and %q was given", errUsage, f.Arg(0))
	case s.events < 1 || s.runs < 1 || s.size < 1000:
		return s, fmt.Errorf("%w: --events and --runs must be at least 1, --size at least 1000", errUsage)
	}
	if only != "" {
		s.only = strings.Split(only, ",")
	}
	for _, name := range s.only {
		if !slices.Contains(names, name) {
			return s, fmt.Errorf("%w: --only: %q is none of %s", errUsage, name, strings.Join(names, ", "))
		}
	}
	return s, nil
}

// selects reports whether a measurement was asked for.
func (s settings) selects(name string) bool { return len(s.only) == 0 || slices.Contains(s.only, name) }

// measure measures what the arguments ask for and prints it.
func measure(args []string, stdout, stderr io.Writer) error {
	s, err := parse(args, stderr)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b, err := newBench(ctx, s, stderr)
	if err != nil {
		return err
	}
	r, err := b.report(ctx)
	err = errors.Join(err, b.close())
	switch {
	case err != nil && ctx.Err() != nil:
		return errInterrupted
	case err != nil:
		return err
	}
	if s.json {
		return r.writeJSON(stdout)
	}
	return r.writeTables(stdout)
}
