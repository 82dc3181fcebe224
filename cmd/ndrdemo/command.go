package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
)

// settings are what the command line says.
type settings struct {
	lasts    time.Duration // 0: until it is interrupted
	patience time.Duration // how long the bridge may take to deliver the rest
	seed     uint64
	rate     float64 // versions a second
}

// run runs the command line until ctx ends, or the demo by itself, and returns
// the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return commandline.Run(ctx, command(stdout), args, stdout, stderr)
}

func command(stdout io.Writer) *cobra.Command {
	s := settings{patience: 30 * time.Second}
	cmd := &cobra.Command{
		Use:   "ndrdemo",
		Short: "Show the bridge at work, with all that it needs in one process",
		Long: `Show the bridge at work. In one process, on free ports of loopback, run:

  a stand-in appliance   with a backlog, and detections that appear, change, tie,
                         come late and are closed, an audit log that grows, and
                         records, some of them late; it fails one request in seven
  a NATS server          with JetStream
  a webhook receiver     that hangs up on one event in a hundred, after it took it
  a chat                 that takes what is posted to Slack, and shows it to a browser
  a Jira                 in which somebody moves issues to Done
  the bridge             configured by a file, as in earnest: all three streams
                         go to NATS, to the webhook and to a file, the most severe
                         detections to the chat, as cards, and the very most severe
                         get tickets in Jira, and are closed with these

It prints where each of them is, so that you can ask them with curl or nats, then
some of the events as they reach the webhook, what the bridge warns of, and counts:

  shown     detections that the appliance has shown
  versions  states that it has shown them in
  entries   of its audit log
  records   that it has stored
  events    that reached a sink, and dup: how many of them were there before
  wait      detections whose latest version has yet to reach the sink, entries
            and records

In the end (Ctrl-C, or --for is over) nothing more happens at the appliance, the
bridge delivers the rest, and a judge compares each sink with what was shown. It
exits with 0 if nothing is missing, and with 1 otherwise; then its folder is kept.

All that was shown is kept in memory for the judge: a few hundred MB an hour.`,
		Example: `  ndrdemo                        until Ctrl-C; a second one ends it at once
  ndrdemo --for 20s              ends by itself
  ndrdemo --for 1m --rate 200    more of it
  ndrdemo --seed 7               other detections
  ndrdemo events                 a few events and no more, to look at`,
		Args: commandline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case s.lasts < 0:
				return fmt.Errorf("%w: --for: must not be negative", commandline.ErrUsage)
			case !(s.rate >= 0 && s.rate <= maxRate):
				return fmt.Errorf("%w: --rate: must lie between 0 and %d", commandline.ErrUsage, maxRate)
			}
			return play(cmd.Context(), s, stdout)
		},
	}
	cmd.AddCommand(eventsCommand(stdout))
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.Flags().SortFlags = false
	cmd.Flags().DurationVar(&s.lasts, "for", 0, "how long things happen, such as 20s; 0: until Ctrl-C")
	cmd.Flags().Float64Var(&s.rate, "rate", 8, fmt.Sprintf("versions that the appliance shows a second, about; at most %d", maxRate))
	cmd.Flags().Uint64Var(&s.seed, "seed", 1, "what decides how detections look and what happens to them")
	return cmd
}
