package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/bridge"
	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/configs"
	"ndrbridge/preflight"
)

func (c *command) checkCommand() *cobra.Command {
	connect, timeout := false, 20*time.Second
	cmd := c.withJSON(c.withConfig(&cobra.Command{
		Use:   "check",
		Short: "Check the configuration, and with --connect whether it would work",
		Long: `Check the configuration file and the environment. Every mistake is printed, with
its place in the file and the path of its key. So is everything else on this machine
that a start would refuse: a state that cannot be made, written or used, an address of
admin.listen that cannot be taken, certificates. An address that a bridge has is a
warning, since the configuration may be in use. Nothing else is contacted. A state that
was not closed in order is not read in full.

With --connect the state is read, and every appliance, every sink and every intake for
tickets is tried as a running bridge would use it, and each answer explained: the
address and its certificates, the key and what it may do, whether another appliance has
taken the place of one that the state knows, topics and streams and what they take, the
services behind webhooks. Nothing is changed: no event is sent, no topic or stream is
made, a write to an appliance is tried with a ticket that no detection has, and the
state is only read, if no bridge has it open, so that it can be done beside a running
bridge. A state that was not closed in order is read in full, as at a start.

Each line has one of these results:

  ok         it works
  remark     it works, and there is something to know
  not tried  it cannot be known without sending or changing something, or there was no
             time left for it
  warning    it works, but not always, or not well; the line below says what to do
  failed     it would not work; the line below says what to do

With --json each of them is an object with target, step, result, detail and advice.
The exit code is 1 where anything has failed, and 0 otherwise.`,
		Example: `  ndrbridge check --config ndrbridge.yaml
  ndrbridge check --config ndrbridge.yaml --connect
  ndrbridge check --config ndrbridge.yaml --connect --timeout 5s --json`,
		Args: commandline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case timeout <= 0:
				return fmt.Errorf("%w: --timeout: must be above 0", commandline.ErrUsage)
			case !connect && (c.asJSON || cmd.Flags().Changed("timeout")):
				return fmt.Errorf("%w: --json and --timeout go with --connect", commandline.ErrUsage)
			}
			config, err := configs.Load(c.configFile, c.environ)
			if err != nil {
				fmt.Fprintln(c.stderr, err)
				return commandline.ErrReported
			}
			if connect {
				return c.checkConnections(cmd.Context(), config, timeout)
			}
			if !c.printSettings(bridge.CheckSettings(cmd.Context(), config, version)) {
				return commandline.ErrReported
			}
			printPlan(c.stdout, config)
			return nil
		},
	}))
	cmd.Flags().BoolVar(&connect, "connect", false, "try every appliance and every sink, and explain what does not work")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long each of them may take")
	return cmd
}

// printSettings prints the findings that a person has to look at. It reports whether a
// bridge would start.
func (c *command) printSettings(found []preflight.Finding) bool {
	good := true
	for _, f := range found {
		name := f.Target
		if name == "configuration" {
			name = f.Step
		}
		switch f.Result {
		case preflight.Failed:
			good = false
		case preflight.Warning:
			name = "warning: " + name
		default:
			continue
		}
		fmt.Fprintf(c.stderr, "%s: %s: %s\n", name, f.Detail, f.Advice)
	}
	return good
}

// checkConnections prints what trying a configuration finds. The error is that
// something has failed, which was told.
func (c *command) checkConnections(ctx context.Context, config *configs.Config, timeout time.Duration) error {
	o := bridge.CheckOptions{Version: version, Timeout: timeout, Now: time.Now}
	const eraseLine = "\r\x1b[K"
	watched := isTerminal(c.stderr)
	if watched {
		o.Progress = func(done, all int) { fmt.Fprintf(c.stderr, "%s%d of %d tried", eraseLine, done, all) }
	}
	found := bridge.Check(ctx, config, o)
	if watched {
		fmt.Fprint(c.stderr, eraseLine)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("it was called off: %w", err)
	}
	failed, warned := 0, 0
	for _, f := range found {
		switch f.Result {
		case preflight.Failed:
			failed++
		case preflight.Warning:
			warned++
		}
		if c.asJSON {
			if err := c.printJSON(f); err != nil {
				return err
			}
		}
	}
	if !c.asJSON {
		findingsTable(found).print(c.stdout, 0, c.colours()) // what to do is never cut
		fmt.Fprintln(c.stdout, "\n"+verdict(failed, warned))
	}
	if failed > 0 {
		return commandline.ErrReported
	}
	return nil
}

// findingsTable has a row for each finding, and one for what to do about it. A
// target is named once.
func findingsTable(found []preflight.Finding) *table {
	t := newTable("TARGET", "STEP", "RESULT", "FOUND")
	last := ""
	for _, f := range found {
		target := cell{f.Target, bold}
		if f.Target == last {
			target.text = ""
		}
		last = f.Target
		t.add(target, f.Step, resultCell(f.Result), f.Detail)
		if f.Advice != "" {
			t.add("", "", "", cell{"-> " + f.Advice, cyan})
		}
	}
	return t
}

func resultCell(r preflight.Result) cell {
	colours := map[preflight.Result]colour{preflight.OK: green, preflight.Untried: yellow, preflight.Warning: yellow, preflight.Failed: red}
	return cell{string(r), colours[r]}
}

// verdict sums the findings up.
func verdict(failed, warned int) string {
	var parts []string
	if failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", failed))
	}
	if warned > 0 {
		parts = append(parts, counted(uint64(warned), "warning"))
	}
	switch {
	case failed > 0:
		return "it would not work: " + strings.Join(parts, ", ")
	case warned > 0:
		return "it would work, with " + strings.Join(parts, ", ")
	}
	return "it would work"
}
