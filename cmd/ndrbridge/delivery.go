package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/admin"
	"ndrbridge/checkpoint"
	"ndrbridge/cmd/internal/terminal"
)

func (c *command) replayCommand() *cobra.Command {
	var since string
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "replay SINK --since TIME",
		Short: "Deliver a range of the journal to a sink again",
		Long: `Queue the events that the bridge journalled at or after a time to be delivered to a
sink again. Only events that the sink has already completed are queued; it will
receive the others anyway. Queued events use a separate queue, so that new events do
not wait for them, and carry the attribute redelivered: true.

The journal keeps delivered events for journal.retain, as far as journal.max_bytes
allows. To deliver older events, read them from the appliance again with
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
				return c.print(map[string]uint64{"replayed": n}, "%s queued to be delivered to %s again", terminal.Count(n, "event"), args[0])
			})
		},
	}))
	cmd.Flags().StringVar(&since, "since", "", "the time to start from: -2h, beginning, or a time such as 2026-01-31T08:00:00Z")
	return cmd
}

func (c *command) pauseCommand() *cobra.Command {
	return c.pausing(&cobra.Command{
		Use:   "pause SINK",
		Short: "Stop delivery to a sink until it is resumed",
		Long: `Stop delivery to a sink until ndrbridge resume, even across restarts. The batch in
flight is completed first. Polling and the other sinks continue. Undelivered events stay
in the journal: a long pause fills it, and then polling pauses, unless the sink's lag
policy is skip.`,
		Example: "  ndrbridge pause lake",
	}, true, admin.Control.Pause)
}

func (c *command) resumeCommand() *cobra.Command {
	return c.pausing(&cobra.Command{
		Use:   "resume SINK",
		Short: "Resume delivery to a sink",
		Long: `Resume delivery to a paused sink. A sink that is halted or waiting to retry tries again
immediately.`,
		Example: "  ndrbridge resume lake",
	}, false, admin.Control.Resume)
}

// pausing completes the commands pause and resume.
func (c *command) pausing(cmd *cobra.Command, paused bool, act func(admin.Control, context.Context, string) error) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = exactly("SINK"), c.complete(sinkNames)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.acting(func(control admin.Control) error {
			if err := act(control, cmd.Context(), args[0]); err != nil {
				return err
			}
			did := map[bool]string{true: "is paused", false: "is resumed; see ndrbridge status"}[paused]
			return c.print(struct {
				Sink   string `json:"sink"`
				Paused bool   `json:"paused"`
			}{args[0], paused}, "sink %s %s", args[0], did)
		})
	}
	return c.withJSON(c.withControl(cmd))
}

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
