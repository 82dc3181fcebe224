package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/checkpoint"
	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/internal/admin"
)

func (c *command) rewindCommand() *cobra.Command {
	var to string
	var dryRun, yes bool
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "rewind APPLIANCE STREAM --to TIME",
		Short: "Read a stream again from a time on",
		Long: `Move the position of a stream back to a time of the appliance's clock. Everything that
the appliance returns from there on is read again and delivered to every sink again,
with the same event ids: remove duplicates by source and id. STREAM is detections, audit,
or records/ followed by the name of the query. A detection that is already known is
delivered as updated, without changes. What the appliance no longer returns is not
delivered.

The command asks the appliance how much it would read again, for up to 15 seconds and up to
10,000 detections or audit log entries, and then asks for confirmation; without a terminal,
it requires --yes. --dry-run prints what would be read again and changes nothing.`,
		Example: `  ndrbridge rewind hq detections --to -2h --dry-run
  ndrbridge rewind hq detections --to -2h
  ndrbridge rewind hq records/dns --to "2026-01-31 08:00" --yes`,
		Args:              exactly("APPLIANCE", "STREAM"),
		ValidArgsFunction: c.completeSource,
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := parseTime("to", to)
			if err != nil {
				return err
			}
			source := checkpoint.Source{Appliance: args[0], Stream: args[1]}
			if !dryRun && !yes && !c.interactive {
				return fmt.Errorf("%w: without a terminal to confirm on, --yes is required, or --dry-run to see what would be read: Read %s again from %s?",
					commandline.ErrUsage, source, readable(at))
			}
			return c.acting(cmd.Context(), func(control admin.Control) error {
				if dryRun || !yes {
					plan, err := control.PlanRewind(cmd.Context(), source, at)
					switch {
					case err != nil:
						return err
					case dryRun:
						return c.printRewindPlan(source, at, plan)
					}
					if plan.Error != "" {
						fmt.Fprintln(c.stderr, uncounted(plan))
					}
					question := fmt.Sprintf("Read %s from %s on again, and deliver what their match selects to %s?",
						rewound(source, plan), readable(at), strings.Join(plan.Sinks, ", "))
					if err := c.confirm(cmd.Context(), yes, question); err != nil {
						return err
					}
				}
				if err := control.Rewind(cmd.Context(), source, at); err != nil {
					return err
				}
				return c.print(struct {
					Stream string    `json:"stream"`
					To     time.Time `json:"to"`
				}{source.String(), at}, "%s will be read again from %s", source, readable(at))
			})
		},
	}))
	c.withTime(cmd, &to, "to", "the time to read from")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be read again and change nothing")
	addYes(cmd, &yes)
	return cmd
}

// rewound describes what a rewind would read again.
func rewound(source checkpoint.Source, plan admin.RewindPlan) string {
	if plan.Objects == nil {
		return fmt.Sprintf("an unknown number of objects of %s", source)
	}
	least := ""
	if plan.AtLeast {
		least = "at least "
	}
	return fmt.Sprintf("%s%s of %s", least, terminal.Count(*plan.Objects, "object"), source)
}

// uncounted describes why a plan does not count the objects of the appliance.
func uncounted(plan admin.RewindPlan) string {
	if plan.Objects != nil {
		return "these are the ones that the state knows, because those of the appliance could not be counted: " + plan.Error
	}
	return "they could not be counted: " + plan.Error
}

func (c *command) printRewindPlan(source checkpoint.Source, to time.Time, plan admin.RewindPlan) error {
	position := "nothing of it was read yet"
	if !plan.Position.IsZero() {
		position = "it was read up to " + readable(plan.Position)
	}
	text := fmt.Sprintf("%s from %s on would be read again; %s", rewound(source, plan), readable(to), position)
	if plan.Error != "" {
		text += "\n" + uncounted(plan)
	}
	text += "\neach sink would receive those that its match selects: " + strings.Join(plan.Sinks, ", ")
	return c.print(struct {
		Stream string    `json:"stream"`
		To     time.Time `json:"to"`
		DryRun bool      `json:"dry_run"`
		admin.RewindPlan
	}{source.String(), to, true, plan}, "%s", text)
}
