package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/admin"
	"ndrbridge/cmd/internal/commandline"
)

func (c *command) deadRequeueCommand() *cobra.Command {
	var all bool
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "requeue SINK (KEY... | --all)",
		Short: "Deliver dead letters of a sink again",
		Long: `Queue dead letters of a sink to be delivered again, in the order of the keys. They
have a queue of their own, so that new events do not wait for them, and carry
redelivered: true. One that is refused again is a dead letter again.

What a source could not make into an event cannot be requeued: read it from the
appliance again with ndrbridge rewind.`,
		Example: `  ndrbridge dead requeue lake --all
  ndrbridge dead requeue lake 00000000000000001234`,
		Args:              atLeast("SINK"),
		ValidArgsFunction: c.complete(sinkNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			owner, err := parseOwner(args[0])
			if err != nil {
				return err
			}
			sink, isSink := owner.Sink()
			if !isSink {
				return fmt.Errorf("%w: requeue is for sinks alone: what %s could not make into events is read again with ndrbridge rewind", commandline.ErrUsage, args[0])
			}
			keys, err := chosen(args[1:], all)
			if err != nil {
				return err
			}
			return c.acting(func(control admin.Control) error {
				return c.changeDead(settling{args[0], "requeued", keys}, func() (int, error) {
					return control.Requeue(cmd.Context(), sink, keys)
				})
			})
		},
	}))
	cmd.Flags().BoolVar(&all, "all", false, "requeue all of them")
	return cmd
}

func (c *command) deadDropCommand() *cobra.Command {
	var all, yes bool
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "drop SINK|APPLIANCE/STREAM (KEY... | --all)",
		Short: "Forget dead letters for good",
		Long: `Forget dead letters for good. --all asks first; where there is no terminal to ask
at, it wants --yes.`,
		Example: `  ndrbridge dead drop lake 00000000000000001234
  ndrbridge dead drop hq/detections --all --yes`,
		Args:              atLeast("SINK|APPLIANCE/STREAM"),
		ValidArgsFunction: c.complete(ownerNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			owner, err := parseOwner(args[0])
			if err != nil {
				return err
			}
			keys, err := chosen(args[1:], all)
			if err != nil {
				return err
			}
			return c.acting(func(control admin.Control) error {
				if all {
					n, err := deadLetters(cmd.Context(), control, owner)
					if err != nil {
						return err
					}
					if err := c.confirm(cmd.Context(), yes, fmt.Sprintf("Drop all dead letters of %s (%d now)?", args[0], n)); err != nil {
						return err
					}
				}
				return c.changeDead(settling{args[0], "dropped", keys}, func() (int, error) {
					return control.DropDead(cmd.Context(), owner, keys)
				})
			})
		},
	}))
	cmd.Flags().BoolVar(&all, "all", false, "drop all of them")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// settling is what becomes of dead letters.
type settling struct {
	name string // of the owner, as it was given
	done string // requeued or dropped
	keys []string
}

// changeDead runs settle, which returns how many dead letters it settled, and tells how
// it goes and what it came to.
func (c *command) changeDead(s settling, commit func() (int, error)) error {
	n := 0
	err := whileWorking(func(since time.Duration) {
		fmt.Fprintf(c.stderr, "dead letters of %s are being %s for %s\n", s.name, s.done, durationText(since))
	}, func() (err error) {
		n, err = commit()
		return err
	})
	// Some may be settled where the rest failed.
	if err == nil || n > 0 {
		if err := c.print(map[string]int{s.done: n}, "%s of %s %s", counted(n, "dead letter"), s.name, s.done); err != nil {
			return err
		}
	}
	if err == nil && n < len(s.keys) {
		return fmt.Errorf("%d of %d keys are not there, or hold no event: see ndrbridge dead list %s", len(s.keys)-n, len(s.keys), s.name)
	}
	return err
}
