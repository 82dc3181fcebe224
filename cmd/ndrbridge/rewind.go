package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/checkpoint"
	"ndrbridge/cmd/internal/commandline"
)

func (c *command) rewindCommand() *cobra.Command {
	var to string
	cmd := c.withControl(&cobra.Command{
		Use:   "rewind APPLIANCE STREAM --to TIME",
		Short: "Read a stream again from a time",
		Long: `Move the position of a stream back to a time of the appliance. What the appliance
shows from there on is read again and delivered to every sink again, with the ids
that it had: drop duplicates by source and id. STREAM is detections, audit, or
records/ and the name of the query. A detection that was known comes as updated,
without changes. What the appliance no longer shows does not come.`,
		Example: `  ndrbridge rewind hq detections --to -2h
  ndrbridge rewind hq records/dns --to 2026-01-31T08:00:00Z`,
		Args: exactly("APPLIANCE", "STREAM"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			at, err := parseTime("to", to)
			if err != nil {
				return err
			}
			control, done, err := c.control()
			if err != nil {
				return err
			}
			defer commandline.Close(done, &err)
			source := checkpoint.Source{Appliance: args[0], Stream: args[1]}
			if err := control.Rewind(cmd.Context(), source, at); err != nil {
				return err
			}
			fmt.Fprintf(c.stdout, "%s is read again from %s\n", source, readable(at))
			return nil
		},
	})
	cmd.Flags().StringVar(&to, "to", "", "where to read again from: -2h, beginning, or a time such as 2026-01-31T08:00:00Z")
	return cmd
}

// readable is a time for a person.
func readable(at time.Time) string {
	if at.UnixMilli() == 0 {
		return "the beginning"
	}
	return at.UTC().Format(time.RFC3339)
}

// exactly wants an argument for each name.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return fmt.Errorf("%w: %s takes %v, and %d arguments were given", commandline.ErrUsage, cmd.CommandPath(), names, len(args))
		}
		return nil
	}
}
