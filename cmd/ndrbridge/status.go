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
		Short: "Tell how appliances, streams, sinks and the journal are doing",
		Long: `Tell how the bridge is doing: the journal, each appliance, each stream with its
last success and what failed since, each sink with its state and what it has yet to
settle, and what to do about what is wrong.

  POLLED   when a poll last succeeded; FAILED counts the polls that failed since
  READ TO  up to when the stream was read, by the appliance's clock; its LAG is how far
           that was behind what there was to read
  RATE     events a second, as the mean of about the last minute: those that came from
           the stream, or that the sink took
  LAG      what the sink has yet to settle; OLDEST is when the oldest of it was seen
  DEAD     dead letters: what a target refused for good, or what could not be made
           into an event
  REDELIVER    events that are queued to be delivered again
  SKIPPED  events that the sink never got, by its lag policy or because it was not
           configured, counted for good

Where ticket commands come from brokers, each is shown with the messages that were
STORED, and those that were REFUSED since they hold no command, since it was opened.

The exit code is 0 whatever the status is: ask /readyz to be told by a code.`,
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
