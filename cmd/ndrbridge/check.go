package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/configs"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/preflight"
	"ndrbridge/transform/format"
)

func (c *command) checkCommand() *cobra.Command {
	connect, timeout := false, 20*time.Second
	cmd := c.withJSON(c.withConfig(&cobra.Command{
		Use:   "check [PATH...]",
		Short: "Check the configuration, and with --connect all connections",
		Long: `Check the configuration files and the environment variables; a PATH is a file or a folder
to check, as with --config. Every mistake is printed with its position in the file and
the path of its key. The command also checks what else would prevent a start on this
machine: a state file that cannot be created, written or used, an address in admin.listen
that is not available, and certificates. It is only a warning if a bridge already listens
on the address, because that bridge may use this configuration. No other connection
is made. A state file that was not closed cleanly is not read in full.

With --connect, the command also reads the state and tries every appliance, every sink
and every ticket intake in the same way as a running bridge, and explains each response:
the address and its certificates, the credentials and their privileges, topics and
streams and what they accept, the services behind webhooks, and the NATS servers of a
cluster. Nothing is changed: no event is sent, no topic or stream is created, writing to
an appliance is tried with a ticket id that no detection has, and the state is only read,
and only if no bridge has it open. The command can therefore be used while a bridge is
running. A state file that was not closed cleanly is read in full, as at a start.

The match of every sink is rehearsed on the newest 100 detections of each appliance: the
step match says how many it selects, in one version or another, and warns of one that
selects none. If the state has no position for an appliance, the step first start
estimates how many of its detections the first start sends. The audit log and records
are not rehearsed.

Each line has one of these results:

  ok         it works
  remark     it works; the line contains useful information
  not tried  it cannot be checked without sending or changing something, or the time
             was up
  warning    it works, but not always or not well; the next line says what to do
  failed     it would not work; the next line says what to do

With --json, each line is an object with target, step, result, detail and advice.
The exit code is 78 if the configuration has an error, 1 if anything else failed, and 0
otherwise.`,
		Example: `  ndrbridge check ndrbridge.yaml
  ndrbridge check --config ndrbridge.yaml --connect
  ndrbridge check --config ndrbridge.yaml --connect --timeout 5s --json`,
		ValidArgsFunction: completeFiles("yaml", "yml"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.configFiles = append(c.configFiles, args...)
			switch {
			case timeout <= 0:
				return fmt.Errorf("%w: --timeout: must be above 0", commandline.ErrUsage)
			case !connect && (c.asJSON || cmd.Flags().Changed("timeout")):
				return fmt.Errorf("%w: --json and --timeout require --connect", commandline.ErrUsage)
			}
			config, err := c.load()
			if err != nil {
				fmt.Fprintln(c.stderr, err)
				return errors.Join(commandline.ErrReported, err)
			}
			files, err := c.source().Files()
			if err != nil {
				return &commandline.ConfigError{Err: err}
			}
			written, err := configs.WrittenSecrets(c.source())
			if err != nil {
				return &commandline.ConfigError{Err: err}
			}
			found := preflight.CheckFiles(written)
			if connect {
				return c.checkConnections(cmd.Context(), config, timeout, found)
			}
			if !c.printSettings(append(found, preflight.CheckSettings(cmd.Context(), config, version)...)) {
				return commandline.ErrReported
			}
			printPlan(c.stdout, files, config)
			return nil
		},
	}))
	cmd.Flags().BoolVar(&connect, "connect", false, "try every appliance, sink and ticket intake and the servers of a cluster, and explain what does not work")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long each of them may take")
	return cmd
}

// printSettings prints the failures and warnings in found. It reports whether a bridge
// would start.
func (c *command) printSettings(found []finding.Finding) bool {
	good := true
	for _, f := range found {
		name := f.Target
		if name == "configuration" {
			name = f.Step
		}
		switch f.Result {
		case finding.Failed:
			good = false
		case finding.Warning:
			name = "warning: " + name
		default:
			continue
		}
		line := name + ": " + f.Detail
		if f.Advice != "" {
			line += "; " + f.Advice
		}
		fmt.Fprintln(c.stderr, line)
	}
	return good
}

// checkConnections checks config with all its connections and prints the findings, after
// those in found. It returns ErrReported if a check failed.
func (c *command) checkConnections(ctx context.Context, config *configs.Config, timeout time.Duration, found []finding.Finding) error {
	o := preflight.Options{Version: version, Timeout: timeout, Now: time.Now, Rehearse: true}
	progress := terminal.NewProgress(c.stderr)
	o.Progress = func(done, all int) { progress.Show(fmt.Sprintf("%d of %d tried", done, all)) }
	found = append(found, preflight.Check(ctx, config, o)...)
	progress.Clear()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("check was interrupted: %w", err)
	}
	failed, warned := 0, 0
	for _, f := range found {
		switch f.Result {
		case finding.Failed:
			failed++
		case finding.Warning:
			warned++
		}
		if c.asJSON {
			if err := c.printJSON(f); err != nil {
				return err
			}
		}
	}
	if !c.asJSON {
		findingsTable(found).Print(c.stdout, 0, c.colours()) // advice is never truncated
		fmt.Fprintln(c.stdout, "\n"+verdict(failed, warned))
	}
	if failed > 0 {
		return commandline.ErrReported
	}
	return nil
}

// findingsTable returns a table with a row for each finding, followed by a row with its
// advice, if any. A target is named in its first row only.
func findingsTable(found []finding.Finding) *terminal.Table {
	t := terminal.NewTable("TARGET", "STEP", "RESULT", "FOUND")
	last := ""
	for _, f := range found {
		target := terminal.Bold.Cell(f.Target)
		if f.Target == last {
			target.Text = ""
		}
		last = f.Target
		t.Add(target, f.Step, wordCell(string(f.Result)), f.Detail)
		if f.Advice != "" {
			t.Add("", "", "", terminal.Cyan.Cell("-> "+f.Advice))
		}
	}
	return t
}

// verdict returns a sentence that sums up the findings.
func verdict(failed, warned int) string {
	var parts []string
	if failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", failed))
	}
	if warned > 0 {
		parts = append(parts, terminal.Count(uint64(warned), "warning"))
	}
	switch {
	case failed > 0:
		return "it would not work: " + strings.Join(parts, ", ")
	case warned > 0:
		return "it would work, with " + strings.Join(parts, ", ")
	}
	return "it would work"
}

// printPlan prints a summary of the configuration that was read from files, without secrets.
func printPlan(w io.Writer, files []string, config *configs.Config) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "configuration\t%s\t\n", cmp.Or(strings.Join(files, ", "), "only the environment"))
	fmt.Fprintf(t, "state\t%s\tjournal up to %s, delivered events kept %s\n", config.State, config.Journal.MaxBytes, config.Journal.Retain)
	if c := config.Cluster; c.Enabled() {
		servers := fmt.Sprint("nats ", c.NATS.URL)
		if e := c.NATS.Embedded; e != nil {
			servers = "nats of the members, at " + e.Listen
		}
		fmt.Fprintf(t, "cluster %s\t%s\tmember %s, %d replicas, lease %s\n", c.Name, servers, c.Member, c.Replicas, c.Lease)
	}
	forOthers := ""
	if url := config.Advertise(); config.Cluster.Enabled() && url != "" {
		forOthers = "for other members " + url
	}
	fmt.Fprintf(t, "admin\t%s://%s\t%s\n", config.Admin.Scheme(), config.Admin.Listen, forOthers)
	for _, a := range config.Appliances {
		fmt.Fprintf(t, "appliance %s\t%s\t%v requests per second\n", a.Name, a.URL, a.RateLimit)
		if d := a.Detections; d.Enabled {
			enriched := ""
			if len(d.Enrich) > 0 {
				enriched = "with " + strings.Join(d.Enrich, ", ")
			}
			fmt.Fprintf(t, "  detections\t%s\tevery %s, from %s\n", enriched, d.Interval, d.Start)
		}
		if l := a.Audit; l.Enabled {
			fmt.Fprintf(t, "  audit\t\tevery %s, from %s\n", l.Interval, l.Start)
		}
		for _, q := range a.Records {
			fmt.Fprintf(t, "  records/%s\t%s\tevery %s, from %s\n", q.Name, cmp.Or(strings.Join(q.Types, ", "), "all types"), q.Interval, q.Start)
		}
	}
	if config.Tickets.Enabled {
		fmt.Fprint(t, "tickets\tenabled\tchanges are written to the appliances\n")
	}
	for _, s := range config.Sinks {
		form := s.Mode
		if s.Webhook != nil {
			form = cmp.Or(s.Webhook.Preset, form)
		}
		if s.Format != string(format.CloudEvents) {
			form = s.Format + ", " + form
		}
		fmt.Fprintf(t, "sink %s\t%s\t%s, from %s\n", s.Name, s.Summary(), form, s.Start)
	}
	_ = t.Flush() // as with other output to the terminal
	fmt.Fprintln(w, "the configuration is valid")
}
