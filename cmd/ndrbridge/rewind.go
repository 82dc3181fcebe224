package main

import (
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/admin"
	"ndrbridge/checkpoint"
)

func (c *command) rewindCommand() *cobra.Command {
	var to string
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "rewind APPLIANCE STREAM --to TIME",
		Short: "Read a stream again from a time",
		Long: `Move the position of a stream back to a time of the appliance. What the appliance
shows from there on is read again and delivered to every sink again, with the ids
that it had: drop duplicates by source and id. STREAM is detections, audit, or
records/ and the name of the query. A detection that was known comes as updated,
without changes. What the appliance no longer shows does not come.`,
		Example: `  ndrbridge rewind hq detections --to -2h
  ndrbridge rewind hq records/dns --to 2026-01-31T08:00:00Z`,
		Args:              exactly("APPLIANCE", "STREAM"),
		ValidArgsFunction: c.complete(applianceNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := parseTime("to", to)
			if err != nil {
				return err
			}
			source := checkpoint.Source{Appliance: args[0], Stream: args[1]}
			return c.acting(func(control admin.Control) error {
				if err := control.Rewind(cmd.Context(), source, at); err != nil {
					return err
				}
				return c.print(struct {
					Stream string    `json:"stream"`
					To     time.Time `json:"to"`
				}{source.String(), at}, "%s is read again from %s", source, readable(at))
			})
		},
	}))
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
