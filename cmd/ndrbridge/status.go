package main

import (
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/admin"
	"ndrbridge/cmd/internal/commandline"
)

func (c *command) statusCommand() *cobra.Command {
	return c.withJSON(c.withControl(&cobra.Command{
		Use:   "status",
		Short: "Show the status of appliances, streams, sinks and the journal",
		Long: `Show the status of the bridge: the journal, each appliance, each stream with its last
successful poll and the failures since, each sink with its state and undelivered events,
and what to do about problems.

  POLLED     when the last poll succeeded; FAILED is the number of failed polls since
  READ TO    the time up to which the stream was read, by the appliance's clock; its LAG
             is how far this is behind the newest data
  RATE       events per second, averaged over about the last minute: read from the
             stream, or accepted by the sink
  LAG        the sink's undelivered events; OLDEST is when the oldest was journalled
  DEAD       dead letters: events that a target rejected permanently, or objects that
             could not be converted into events
  REDELIVER  events that are queued to be delivered again
  SKIPPED    events that were never sent to the sink, because of its lag policy or
             because it was not configured; the count is never reset

If ticket commands are received from brokers, each is shown with the number of messages
that were STORED, and that were REFUSED because they contain no valid command, since the
connection was opened.

The exit code is 0 regardless of the status. Use /readyz to check it in a script.`,
		Example: `  ndrbridge status --config ndrbridge.yaml
  ndrbridge status --json | jq '.sinks[] | select(.state == "halted")'`,
		Args: commandline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.acting(func(control admin.Control) error {
				status, err := control.Status(cmd.Context())
				if err != nil {
					return err
				}
				if c.asJSON {
					return c.printJSON(status)
				}
				c.printStatus(status, time.Now())
				return nil
			})
		},
	}))
}
