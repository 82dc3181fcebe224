package main

import (
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/internal/admin"
)

func (c *command) pauseCommand() *cobra.Command {
	return c.pausing(&cobra.Command{
		Use:   "pause SINK",
		Short: "Stop delivery to a sink until it is resumed",
		Long: `Stop delivery to a sink until ndrbridge resume, even across restarts. The batch in
flight is completed first. Polling and the other sinks continue. Undelivered events stay
in the journal: a long pause fills it, and then polling pauses, unless the sink's lag
policy is skip.`,
		Example: "  ndrbridge pause lake",
	}, true, admin.API.PauseSink)
}

func (c *command) resumeCommand() *cobra.Command {
	return c.pausing(&cobra.Command{
		Use:   "resume SINK",
		Short: "Resume delivery to a sink",
		Long: `Resume delivery to a paused sink. A sink that is halted or waiting to retry tries again
immediately.`,
		Example: "  ndrbridge resume lake",
	}, false, admin.API.ResumeSink)
}

// pausing completes the commands pause and resume.
func (c *command) pausing(cmd *cobra.Command, paused bool, act admin.Action[admin.OfSink]) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = exactly("SINK"), c.complete(sinkNames)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.acting(cmd.Context(), func(control *admin.Client) error {
			if err := act.Do(cmd.Context(), control, admin.OfSink{Sink: args[0]}); err != nil {
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

// readable formats a time for a person.
func readable(at time.Time) string {
	if at.UnixMilli() == 0 {
		return "the beginning"
	}
	return at.UTC().Format(time.RFC3339)
}
