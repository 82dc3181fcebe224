package main

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/pipeline"
	"ndrbridge/internal/pipeline/endpoint"
)

func (c *command) sendCommand() *cobra.Command {
	return c.withJSON(c.withControl(&cobra.Command{
		Use:   "send SINK",
		Short: "Send a test event to a sink, and explain the answer",
		Long: `Send one test event to a sink, in the way of all its events except that match does not
apply, and print what the target answered and what to look for there. If it fails, the
advice is that of ndrbridge check --connect, and the exit code is 1.

The event has the type io.ndrbridge.sink.test, the stream events and the lowest severity,
and its title says that it is a test. A pager gets an alert and resolves it at once; a ticket
system gets a ticket, which has to be closed there. The event is neither journalled nor
counted, and no other event is affected by its result. A running bridge sends it, even if
the sink is paused; without one, the command does, whether there is a state or not.`,
		Example:           "  ndrbridge send lake",
		Args:              exactly("SINK"),
		ValidArgsFunction: c.complete(sinkNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			report := func(sent admin.TestSent, err error) error {
				switch {
				case err != nil:
					return err
				case c.asJSON:
					err = c.printJSON(sent)
				default:
					findingsTable(sent.Findings).Print(c.stdout, 0, c.colours())
				}
				if err == nil && !sent.Delivered {
					err = commandline.ErrReported
				}
				return err
			}
			direct := func(config *configs.Config, other answering, _ func(*admin.Client) error) error {
				if other.answer != "" {
					fmt.Fprintf(c.stderr, "%s; the command sends the event itself\n", other.answer)
				}
				return report(pipeline.SendTest(cmd.Context(), config, args[0], endpoint.SinkOptions{
					Version: version, Stdout: c.stdout, Log: slog.New(slog.DiscardHandler),
				}))
			}
			return c.actingDespite(cmd.Context(), func(control *admin.Client) error {
				return report(admin.API.SendTest.Call(cmd.Context(), control, admin.OfSink{Sink: args[0]}))
			}, c.reportInvalid, direct)
		},
	}))
}
