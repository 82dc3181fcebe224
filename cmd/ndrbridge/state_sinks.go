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
	var yes, appliance, identity bool
	cmd := c.withJSON(c.withConfig(&cobra.Command{
		Use:   "forget NAME",
		Short: "Drop what the state keeps of a sink that is gone, or of an appliance",
		Long: `Drop the cursor, the dead letters and the queued redeliveries of a sink that is no
longer configured. If it is configured again later, it begins at its start. Where it
has dead letters or redeliveries, it is asked first, or --yes is wanted.

With --appliance NAME is that of an appliance, when another one took its place. The
positions of its streams are dropped, what is known of its detections, and the chat
messages and tickets that sinks remember for them: its streams begin at their start,
and what it shows is new. Events in the journal are still delivered, and dead letters
are kept. It is an error while ticket commands for it are pending. With --identity as
well, only the report that another appliance answers is dropped: it is the same one,
and its streams go on.

The bridge must be stopped.`,
		Example: `  ndrbridge state forget lake
  ndrbridge state forget --appliance hq`,
		Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, ctx := args[0], cmd.Context()
			switch {
			case identity && !appliance:
				return fmt.Errorf("%w: --identity goes with --appliance", commandline.ErrUsage)
			case appliance:
				return c.offline(func(state *bridge.Offline) error { return c.forgetAppliance(ctx, state, name, identity, yes) })
			}
			return c.offlineWithout(name, func(state *bridge.Offline) error {
				if err := c.confirmForget(ctx, state, name, yes); err != nil {
					return err
				}
				if err := state.Forget(ctx, name); err != nil {
					return err
				}
				return c.print(map[string]string{"forgotten": name}, "the state keeps nothing of sink %s any more", name)
			})
		},
	}))
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&appliance, "appliance", false, "NAME is that of an appliance, configured or not")
	cmd.Flags().BoolVar(&identity, "identity", false, "with --appliance: it is the same machine, drop only the report that it is another")
	return cmd
}

func (c *command) forgetAppliance(ctx context.Context, state *bridge.Offline, name string, identity, yes bool) error {
	if identity {
		if err := state.ForgetIdentity(ctx, name); err != nil {
			return err
		}
		return c.print(map[string]string{"forgotten": name}, "what answers under the name %s next is taken for the appliance", name)
	}
	if err := c.confirm(ctx, yes, fmt.Sprintf("Drop the positions of %s and what is known of its detections? Its streams begin at their start.", name)); err != nil {
		return err
	}
	if err := state.ForgetAppliance(ctx, name); err != nil {
		return err
	}
	return c.print(map[string]string{"forgotten": name}, "the state knows nothing of appliance %s any more", name)
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
			return c.offlineWithout(args[0], func(state *bridge.Offline) error {
				if err := state.Rename(cmd.Context(), args[0], args[1]); err != nil {
					return err
				}
				return c.print(map[string]string{"renamed": args[0], "to": args[1]}, "what the state kept of sink %s is that of %s now", args[0], args[1])
			})
		},
	}))
}

// offlineWithout calls act with the state of a bridge that does not run, to change what
// it keeps of a sink that must not be configured.
func (c *command) offlineWithout(sink string, act func(*bridge.Offline) error) error {
	config, err := configs.Load(c.configFile, c.environ)
	if err != nil {
		return err
	}
	if slices.Contains(sinkNames(config), sink) {
		return fmt.Errorf("sink %s is configured: take it out of the configuration, or rename it there, first", sink)
	}
	return c.offline(act)
}

// offline calls act with the state of a bridge that does not run.
func (c *command) offline(act func(*bridge.Offline) error) (err error) {
	config, err := configs.Load(c.configFile, c.environ)
	if err != nil {
		return err
	}
	state, err := bridge.OpenOffline(config, bridge.Options{Version: version, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return stateError(config.State, err)
	}
	defer commandline.Close(state.Close, &err)
	return act(state)
}
