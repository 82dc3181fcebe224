package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"ndrbridge/bridge"
	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/configs"
)

func (c *command) stateForgetCommand() *cobra.Command {
	var yes bool
	cmd := c.withJSON(c.withConfig(&cobra.Command{
		Use:   "forget SINK",
		Short: "Drop what the state keeps of a sink that is no longer configured",
		Long: `Drop the cursor, the dead letters and the queued redeliveries of a sink that is no
longer configured. If it is configured again later, it begins at its start. Where it
has dead letters or redeliveries, it is asked first, or --yes is wanted. The bridge
must be stopped.`,
		Example: "  ndrbridge state forget lake",
		Args:    exactly("SINK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.offline(args[0], func(state *bridge.Offline) error {
				if err := c.confirmForget(cmd.Context(), state, args[0], yes); err != nil {
					return err
				}
				if err := state.Forget(cmd.Context(), args[0]); err != nil {
					return err
				}
				return c.tell(map[string]string{"forgotten": args[0]}, "the state keeps nothing of sink %s any more", args[0])
			})
		},
	}))
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// confirmForget asks where what is dropped could still be delivered.
func (c *command) confirmForget(ctx context.Context, state *bridge.Offline, sink string, yes bool) error {
	status, err := state.Status(ctx)
	if err != nil {
		return err
	}
	for _, s := range status.Unconfigured {
		if s.Name == sink && s.DeadLetters+s.Redeliveries > 0 {
			return c.confirm(ctx, yes, fmt.Sprintf("Drop %s and %s of %s?",
				counted(s.DeadLetters, "dead letter"), counted(s.Redeliveries, "queued event"), sink))
		}
	}
	return nil
}

func (c *command) stateRenameCommand() *cobra.Command {
	return c.withJSON(c.withConfig(&cobra.Command{
		Use:   "rename OLD NEW",
		Short: "Give what the state keeps of a sink to a new name",
		Long: `Give the cursor, the dead letters and the queued redeliveries of a sink to another
name, so that a sink that was renamed in the configuration goes on where it was:
stop the bridge, rename the sink in the configuration, run this, start the bridge.
A bridge that ran with the new name already has begun a cursor of its own for it;
then forget that one first, with the sink out of the configuration.`,
		Example: "  ndrbridge state rename lake datalake",
		Args:    exactly("OLD", "NEW"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.offline(args[0], func(state *bridge.Offline) error {
				if err := state.Rename(cmd.Context(), args[0], args[1]); err != nil {
					return err
				}
				return c.tell(map[string]string{"renamed": args[0], "to": args[1]}, "what the state kept of sink %s is that of %s now", args[0], args[1])
			})
		},
	}))
}

// offline calls act with the state of a bridge that does not run, to change what
// it keeps of a sink that must not be configured.
func (c *command) offline(sink string, act func(*bridge.Offline) error) (err error) {
	config, err := configs.Load(c.configFile, c.environ)
	if err != nil {
		return err
	}
	if slices.Contains(sinkNames(config), sink) {
		return fmt.Errorf("sink %s is configured: take it out of the configuration, or rename it there, first", sink)
	}
	state, err := bridge.OpenOffline(config, bridge.Options{Version: version, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return stateError(config.State, err)
	}
	defer commandline.Close(state.Close, &err)
	return act(state)
}
