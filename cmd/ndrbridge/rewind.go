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
		Short: "Read a stream again from a time on",
		Long: `Move the position of a stream back to a time of the appliance's clock. Everything that
the appliance returns from there on is read again and delivered to every sink again,
with the same event ids: remove duplicates by source and id. STREAM is detections, audit,
or records/ followed by the name of the query. A detection that is already known is
delivered as updated, without changes. What the appliance no longer returns is not
delivered.`,
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
				}{source.String(), at}, "%s will be read again from %s", source, readable(at))
			})
		},
	}))
	cmd.Flags().StringVar(&to, "to", "", "the time to read from: -2h, beginning, or a time such as 2026-01-31T08:00:00Z")
	return cmd
}

// readable formats a time for a person.
func readable(at time.Time) string {
	if at.UnixMilli() == 0 {
		return "the beginning"
	}
	return at.UTC().Format(time.RFC3339)
}
