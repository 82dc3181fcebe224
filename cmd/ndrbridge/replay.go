package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/internal/admin"
)

func (c *command) replayCommand() *cobra.Command {
	var since, until string
	var all, dryRun, yes bool
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "replay (SINK... | --all) --since TIME",
		Short: "Deliver a range of the journal to sinks again",
		Long: `Queue the events that the bridge journalled at or after a time, and before another one
with --until, to be delivered to sinks again. Only events that a sink has already
completed are queued; it will receive the others anyway. Queued events use a separate
queue, so that new events do not wait for them, and carry the attribute redelivered: true.
Of these events, a sink receives those that its match selects.

The command counts the events and asks for confirmation; without a terminal, it requires
--yes. --dry-run only counts them.

The journal keeps delivered events for journal.retain, as far as journal.max_bytes
allows. To deliver older events, read them from the appliance again with
ndrbridge rewind.`,
		Example: `  ndrbridge replay lake --since -2h --dry-run
  ndrbridge replay lake soc --since "yesterday 18:30" --until "yesterday 19:00"
  ndrbridge replay --all --since -2h --yes`,
		ValidArgsFunction: c.completeNames(sinkNames),
		RunE: func(cmd *cobra.Command, sinks []string) error {
			r, err := replayOf(since, until)
			if err != nil {
				return err
			}
			if all == (len(sinks) > 0) {
				return fmt.Errorf("%w: give either the names of sinks or --all", commandline.ErrUsage)
			}
			return c.acting(cmd.Context(), func(control *admin.Client) error {
				sinks, err := chosenSinks(cmd.Context(), control, sinks, all)
				if err != nil {
					return err
				}
				counts, err := countReplay(cmd.Context(), control, sinks, r)
				if err != nil {
					return err
				}
				if dryRun {
					return c.printReplay(sinks, counts, "would be queued to be delivered to %s again", true)
				}
				if total := sum(counts); total > 0 {
					if err := c.confirm(cmd.Context(), yes, replayQuestion(sinks, counts, r)); err != nil {
						return err
					}
				}
				for i, sink := range sinks {
					replayed, err := admin.API.ReplayEvents.Call(cmd.Context(), control, admin.ReplayRequest{OfSink: admin.OfSink{Sink: sink}, Replay: r})
					if err != nil {
						return err
					}
					counts[i] = replayed.Events
					if err := c.printReplay(sinks[i:i+1], counts[i:i+1], "queued to be delivered to %s again", false); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}))
	c.withTime(cmd, &since, "since", "the time to start from")
	c.withTime(cmd, &until, "until", "deliver what was journalled before this time")
	cmd.Flags().BoolVar(&all, "all", false, "deliver to all configured sinks")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "count the events and change nothing")
	addYes(cmd, &yes)
	return cmd
}

// replayOf returns the range that the flags select.
func replayOf(since, until string) (r admin.Replay, err error) {
	if r.Since, err = parseTime("since", since); err != nil || until == "" {
		return r, err
	}
	if r.Until, err = parseTime("until", until); err == nil && !r.Until.After(r.Since) {
		err = fmt.Errorf("%w: --until must be after --since", commandline.ErrUsage)
	}
	return r, err
}

// chosenSinks returns the sinks to act on: those that are named, or all that are configured.
func chosenSinks(ctx context.Context, control *admin.Client, named []string, all bool) ([]string, error) {
	if !all {
		slices.Sort(named)
		return slices.Compact(named), nil
	}
	status, err := control.Status(ctx)
	var names []string
	for _, s := range status.Sinks {
		names = append(names, s.Name)
	}
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("%w: no sink is configured", commandline.ErrUsage)
	}
	return names, err
}

// countReplay returns how many events each sink would receive. It fails if a sink is
// unknown.
func countReplay(ctx context.Context, control *admin.Client, sinks []string, r admin.Replay) ([]uint64, error) {
	r.DryRun = true
	counts := make([]uint64, len(sinks))
	for i, sink := range sinks {
		replayed, err := admin.API.ReplayEvents.Call(ctx, control, admin.ReplayRequest{OfSink: admin.OfSink{Sink: sink}, Replay: r})
		if err != nil {
			return nil, err
		}
		counts[i] = replayed.Events
	}
	return counts, nil
}

func sum(counts []uint64) (total uint64) {
	for _, n := range counts {
		total += n
	}
	return total
}

// replayQuestion returns the question before a replay.
func replayQuestion(sinks []string, counts []uint64, r admin.Replay) string {
	period := "since " + readable(r.Since)
	if !r.Until.IsZero() {
		period += " until " + r.Until.UTC().Format(time.RFC3339)
	}
	var parts []string
	for i, sink := range sinks {
		parts = append(parts, fmt.Sprintf("%s to %s", terminal.Count(counts[i], "event"), sink))
	}
	return fmt.Sprintf("Deliver what was journalled %s again: %s, as far as their match selects it?", period, strings.Join(parts, ", "))
}

// printReplay prints how many events each sink receives. what has a verb for the sink.
func (c *command) printReplay(sinks []string, counts []uint64, what string, dryRun bool) error {
	for i, sink := range sinks {
		if err := c.print(struct {
			Sink     string `json:"sink"`
			Replayed uint64 `json:"replayed"`
			DryRun   bool   `json:"dry_run,omitempty"`
		}{sink, counts[i], dryRun}, "%s "+what, terminal.Count(counts[i], "event"), sink); err != nil {
			return err
		}
	}
	return nil
}
