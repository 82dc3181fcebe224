// Command ndrdemo demonstrates the bridge: it runs a stand-in appliance, a NATS server, a
// webhook receiver, a chat, a Jira and the bridge between them in one process.
package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
)

func main() { commandline.Main(run) }

// settings holds the values of the flags.
type settings struct {
	lasts    time.Duration // 0: until interrupted
	patience time.Duration // how long the bridge may take to deliver the rest
	seed     uint64
	rate     float64 // versions per second
}

// run runs the command line until the demo is over or ctx is cancelled, and returns the
// exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return commandline.Run(ctx, command(stdout), args, stdout, stderr)
}

func command(stdout io.Writer) *cobra.Command {
	s := settings{patience: time.Minute}
	cmd := &cobra.Command{
		Use:   "ndrdemo",
		Short: "Demonstrate the bridge, with everything that it needs in one process",
		Long: `Demonstrate the bridge. In one process, on free loopback ports, run:

  a stand-in appliance   with a backlog; detections that appear, change, share a
                         timestamp, become visible late and are closed; a growing audit
                         log; and records, some of them late. It fails one request in
                         seven
  a NATS server          with JetStream
  a webhook receiver     that accepts every event, but hangs up before responding to one
                         in a hundred
  a chat                 that accepts Slack messages and shows them in a browser
  a Jira                 in which issues are moved to Done. Its first one has a story: a
                         person comments on it, which arrives in the note of the
                         detection, and its detection is closed and reopened
  the bridge             configured with a file, as in production: it delivers all three
                         streams to NATS, to the webhook and to a file, posts cards of
                         high-risk detections in the chat, and opens tickets in Jira for
                         those with the highest risk, which close the detections, and
                         follow them

It prints the address of each, so that you can use curl or nats with them, and the name of
the bridge's log, then some of the events that reach the webhook. The status page shows
rates and lags. At the end (after Ctrl-C, or when --for is over) the appliance
stops changing, the bridge delivers the rest, and each sink is compared with the appliance.
The exit code is 0 if nothing is missing. Otherwise it is 1, and the demo's folder is kept.

The demo keeps all versions in memory for the comparison: a few hundred MB per hour.`,
		Example: `  ndrdemo                        # until Ctrl-C; a second Ctrl-C ends it immediately
  ndrdemo --for 20s              # stop after 20 seconds
  ndrdemo --for 1m --rate 200    # a higher rate
  ndrdemo --seed 7               # other detections`,
		Args: commandline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case s.lasts < 0:
				return fmt.Errorf("%w: --for: must not be negative", commandline.ErrUsage)
			case !(s.rate >= 0 && s.rate <= maxRate):
				return fmt.Errorf("%w: --rate: must be between 0 and %d", commandline.ErrUsage, maxRate)
			}
			return play(cmd.Context(), s, stdout)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().DurationVar(&s.lasts, "for", 0, "how long the appliance keeps changing, such as 20s; 0: until Ctrl-C")
	cmd.Flags().Float64Var(&s.rate, "rate", 8, fmt.Sprintf("approximate number of new versions per second; at most %d", maxRate))
	cmd.Flags().Uint64Var(&s.seed, "seed", 1, "seed of the random detections and their changes")
	return cmd
}
