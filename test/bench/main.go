// Command bench measures the bridge on the machine that it runs on: how fast a
// backlog of detections is delivered to each kind of sink, compared with the bare client
// library, and in each format, compared with CloudEvents; the latency of an event; the cost
// of a poll that finds nothing new; how a backlog of records is read; the cost of a backlog
// for an unreachable sink, in time to start, memory and disk space; and all of a cluster's
// costs: its drains, latency, idle CPU time, and how long it takes to replace a lost member.
//
//	go run ./test/bench
//	go run ./test/bench --only kafka,nats --runs 5
//
// A drain is timed from the start of the bridge's process, without a state, until its
// metrics show that every event is delivered. Its CPU time is that of the whole process,
// including start and shutdown. The bare client has its events in memory, encoded, and is
// measured while it sends. Every receiver is checked for having received each event once.
//
// The bridge, the bare clients and the appliance of a drain are processes of their own; the
// receivers and the other appliances run in this one. All of them end with the command, and it
// leaves no files.
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

// roleClient is the first argument with which the command runs itself as a bare client.
const roleClient = "client"

// errUsage marks an invalid command line.
var errUsage = errors.New("wrong usage")

// errInterrupted replaces errors that occur after a signal has ended the processes.
var errInterrupted = errors.New("interrupted")

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run runs the command line and returns the exit code: 0 for success, 1 for failure, 2 for
// wrong usage.
func run(args []string, stdout, stderr io.Writer) int {
	var err error
	if len(args) > 0 && args[0] == roleClient {
		err = client(args[1:], stdout)
	} else {
		err = measure(args, stdout, stderr)
	}
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintf(stderr, "bench: %v\n", err)
	if errors.Is(err, errUsage) {
		return 2
	}
	return 1
}

// settings are the settings of the command line.
type settings struct {
	events int // in a drain
	size   int // of a detection, in bytes of JSON
	runs   int // of each drain
	only   []string
	fleet  int
	json   bool
}

func parse(args []string, stderr io.Writer) (settings, error) {
	var s settings
	var only string
	names := []string{}
	for _, d := range allDrains {
		names = append(names, d.name)
	}
	for _, m := range measurements {
		names = append(names, m.name)
	}

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
		return s, fmt.Errorf("%w: unexpected argument %q", errUsage, f.Arg(0))
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

// selects reports whether a measurement was requested.
func (s settings) selects(name string) bool { return len(s.only) == 0 || slices.Contains(s.only, name) }

// measure runs the measurements that the arguments select and prints the results.
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
