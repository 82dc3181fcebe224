package main

import (
	"context"

	"github.com/spf13/cobra"

	"ndrbridge/admin"
	"ndrbridge/cmd/internal/commandline"
)

func (c *command) replayCommand() *cobra.Command {
	var since string
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "replay SINK --since TIME",
		Short: "Deliver a stretch of the journal to a sink again",
		Long: `Queue the events of the journal that the bridge saw at a time or later, and that
the sink has settled, to be delivered to this sink again: what it has yet to
settle comes anyway. They have a queue of their own, so that new events do not
wait for them, and carry redelivered: true.

The journal keeps delivered events for journal.retain, as far as journal.max_bytes
allows. To get what is older, read it from the appliance again with
ndrbridge rewind.`,
		Example: `  ndrbridge replay lake --since -2h
  ndrbridge replay soc --since 2026-01-31T08:00:00Z`,
		Args:              exactly("SINK"),
		ValidArgsFunction: c.complete(sinkNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := parseTime("since", since)
			if err != nil {
				return err
			}
			return c.acting(func(control admin.Control) error {
				n, err := control.Replay(cmd.Context(), args[0], at)
				if err != nil {
					return err
				}
				return c.print(map[string]uint64{"replayed": n}, "%s to be delivered to %s again", counted(n, "event"), args[0])
			})
		},
	}))
	cmd.Flags().StringVar(&since, "since", "", "where to begin: -2h, beginning, or a time such as 2026-01-31T08:00:00Z")
	return cmd
}

func (c *command) pauseCommand() *cobra.Command {
	return c.pausing(&cobra.Command{
		Use:   "pause SINK",
		Short: "Stop delivery to a sink until it is resumed",
		Long: `Stop delivery to a sink until ndrbridge resume, over restarts too. A batch that is
under way ends first. Polling and the other sinks go on. What the sink has yet to get
stays in the journal: a sink that is paused for long fills it, and then the sources
wait, unless the sink's lag policy is skip.`,
		Example: "  ndrbridge pause lake",
	}, true, admin.Control.Pause)
}

func (c *command) resumeCommand() *cobra.Command {
	return c.pausing(&cobra.Command{
		Use:   "resume SINK",
		Short: "Go on with delivery to a sink",
		Long: `Go on with delivery to a sink that was paused. A sink that is halted, or waits to
try something again, tries it at once.`,
		Example: "  ndrbridge resume lake",
	}, false, admin.Control.Resume)
}

// pausing completes the commands that pause a sink and resume it.
func (c *command) pausing(cmd *cobra.Command, paused bool, act func(admin.Control, context.Context, string) error) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = exactly("SINK"), c.complete(sinkNames)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.acting(func(control admin.Control) error {
			if err := act(control, cmd.Context(), args[0]); err != nil {
				return err
			}
			did := map[bool]string{true: "is paused", false: "goes on: see ndrbridge status"}[paused]
			return c.print(struct {
				Sink   string `json:"sink"`
				Paused bool   `json:"paused"`
			}{args[0], paused}, "sink %s %s", args[0], did)
		})
	}
	return c.withJSON(c.withControl(cmd))
}

// acting calls act with what a command acts on.
func (c *command) acting(act func(admin.Control) error) (err error) {
	control, done, err := c.control()
	if err != nil {
		return err
	}
	defer commandline.Close(done, &err)
	return act(control)
}
