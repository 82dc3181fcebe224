package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/admin"
	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
)

func (c *command) deadRequeueCommand() *cobra.Command {
	var all bool
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "requeue SINK (KEY... | --all)",
		Short: "Deliver dead letters of a sink again",
		Long: `Queue dead letters of a sink to be delivered again, in the order of their keys. They
use a separate queue, so that new events do not wait for them, and carry the attribute
redelivered: true. An event that is rejected again becomes a dead letter again.

Dead letters of streams cannot be requeued, because they are not events. Read those
objects again with ndrbridge rewind.`,
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
				return fmt.Errorf("%w: dead letters of a stream cannot be requeued; read the objects of %s again with ndrbridge rewind", commandline.ErrUsage, args[0])
			}
			keys, err := chosen(args[1:], all)
			if err != nil {
				return err
			}
			return c.acting(func(control admin.Control) error {
				return c.changeDead(deadChange{args[0], "requeued", keys}, func() (int, error) {
					return control.Requeue(cmd.Context(), sink, keys)
				})
			})
		},
	}))
	cmd.Flags().BoolVar(&all, "all", false, "requeue all dead letters of the sink")
	return cmd
}

func (c *command) deadDropCommand() *cobra.Command {
	var all, yes bool
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "drop SINK|APPLIANCE/STREAM (KEY... | --all)",
		Short: "Delete dead letters permanently",
		Long: `Delete dead letters permanently. --all asks for confirmation; without a terminal, it
requires --yes.`,
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
				return c.changeDead(deadChange{args[0], "dropped", keys}, func() (int, error) {
					return control.DropDead(cmd.Context(), owner, keys)
				})
			})
		},
	}))
	cmd.Flags().BoolVar(&all, "all", false, "drop all dead letters of the sink or stream")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	return cmd
}

// deadChange describes a change to dead letters, for messages.
type deadChange struct {
	name string // of the owner, as given on the command line
	done string // requeued or dropped
	keys []string
}

// changeDead calls change, which returns how many dead letters it changed. It prints
// progress to stderr and the result to stdout.
func (c *command) changeDead(s deadChange, change func() (int, error)) error {
	n := 0
	err := whileWorking(func(since time.Duration) {
		fmt.Fprintf(c.stderr, "dead letters of %s are being %s for %s\n", s.name, s.done, terminal.Duration(since))
	}, func() (err error) {
		n, err = change()
		return err
	})
	// Some may have been changed before an error.
	if err == nil || n > 0 {
		if err := c.print(map[string]int{s.done: n}, "%s of %s %s", terminal.Count(n, "dead letter"), s.name, s.done); err != nil {
			return err
		}
	}
	if err == nil && n < len(s.keys) {
		return fmt.Errorf("%d of %d keys do not exist or hold no event; see ndrbridge dead list %s", len(s.keys)-n, len(s.keys), s.name)
	}
	return err
}
