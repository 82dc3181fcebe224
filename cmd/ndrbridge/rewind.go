package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/admin"
)

func (c *command) rewindCommand() *cobra.Command {
	var to string
	var yes bool
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "rewind APPLIANCE STREAM --to TIME",
		Short: "Read a stream again from a time on",
		Long: `Move the position of a stream back to a time of the appliance's clock. Everything that
the appliance returns from there on is read again and delivered to every sink again,
with the same event ids: remove duplicates by source and id. STREAM is detections, audit,
or records/ followed by the name of the query. A detection that is already known is
delivered as updated, without changes. What the appliance no longer returns is not
delivered.

The command asks for confirmation; without a terminal, it requires --yes.`,
		Example: `  ndrbridge rewind hq detections --to -2h
  ndrbridge rewind hq records/dns --to "2026-01-31 08:00" --yes`,
		Args:              exactly("APPLIANCE", "STREAM"),
		ValidArgsFunction: c.completeSource,
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := parseTime("to", to)
			if err != nil {
				return err
			}
			source := checkpoint.Source{Appliance: args[0], Stream: args[1]}
			question := fmt.Sprintf("Read %s again from %s on, and deliver what their match selects to all sinks?", source, readable(at))
			if err := c.confirm(cmd.Context(), yes, question); err != nil {
				return err
			}
			return c.acting(cmd.Context(), func(control *admin.Client) error {
				if err := admin.API.Rewind.Do(cmd.Context(), control, admin.RewindRequest{Appliance: args[0], Stream: args[1], To: at}); err != nil {
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
	addYes(cmd, &yes)
	return cmd
}
