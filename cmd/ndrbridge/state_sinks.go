package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/internal/admin"
)

func (c *command) stateForgetCommand() *cobra.Command {
	var yes, appliance, identity bool
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "forget NAME",
		Short: "Delete the state of a removed sink, or of a replaced appliance",
		Long: `Delete the cursor, the dead letters and the queued redeliveries of a sink that is no
longer configured. If the sink is configured again later, it begins at its start. The
command asks for confirmation; without a terminal, it requires --yes.

With --appliance, NAME is an appliance that was replaced by another one. The positions
of its streams are deleted, together with the known detections and the references to
chat messages and tickets that sinks keep for them. Its streams begin at their start, and
everything that it returns is new, except that ticket systems still find the tickets of
the old appliance: remove what identifies them first (see its page on tickets). Events in the
journal are still delivered, and dead letters are kept. The command fails if ticket
commands for the appliance are pending. With --identity as well, only the report that a
different appliance answers is deleted: use it if it is still the same appliance. Its
streams continue.

A running bridge must have loaded a configuration without the sink or the appliance;
--identity needs no other configuration.`,
		Example: `  ndrbridge state forget lake
  ndrbridge state forget --appliance hq`,
		Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, ctx := args[0], cmd.Context()
			switch {
			case identity && !appliance:
				return fmt.Errorf("%w: --identity requires --appliance", commandline.ErrUsage)
			case appliance:
				return c.acting(ctx, func(state *admin.Client) error { return c.forgetAppliance(ctx, state, name, identity, yes) })
			}
			return c.acting(ctx, func(state *admin.Client) error {
				if err := c.confirmForget(ctx, state, name, yes); err != nil {
					return err
				}
				if err := admin.API.ForgetSink.Do(ctx, state, admin.OfSink{Sink: name}); err != nil {
					return err
				}
				return c.print(map[string]string{"forgotten": name}, "the state of sink %s is deleted", name)
			})
		},
	}))
	addYes(cmd, &yes)
	cmd.Flags().BoolVar(&appliance, "appliance", false, "NAME is an appliance, configured or not")
	cmd.Flags().BoolVar(&identity, "identity", false, "with --appliance: it is still the same appliance; delete only the report that it is not")
	return cmd
}

func (c *command) forgetAppliance(ctx context.Context, state *admin.Client, name string, identity, yes bool) error {
	if identity {
		if err := admin.API.ForgetAppliance.Do(ctx, state, admin.ForgetRequest{Appliance: name, Identity: true}); err != nil {
			return err
		}
		return c.print(map[string]string{"forgotten": name}, "the next appliance that answers under the name %s is accepted as the same one", name)
	}
	if err := c.confirmLoss(ctx, yes, fmt.Sprintf("Delete the stream positions and the known detections of %s? Its streams will begin at their start.", name)); err != nil {
		return err
	}
	if err := admin.API.ForgetAppliance.Do(ctx, state, admin.ForgetRequest{Appliance: name}); err != nil {
		return err
	}
	return c.print(map[string]string{"forgotten": name}, "the state of appliance %s is deleted", name)
}

// confirmForget asks for confirmation, with what of the sink could still be delivered.
func (c *command) confirmForget(ctx context.Context, state *admin.Client, sink string, yes bool) error {
	status, err := state.Status(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(status.Unconfigured, func(s admin.SinkStatus) bool { return s.Name == sink })
	if i < 0 {
		return nil // the command fails
	}
	s := status.Unconfigured[i]
	return c.confirmLoss(ctx, yes, fmt.Sprintf("Delete the cursor, %s, %s and %s of %s?",
		terminal.Count(s.DeadLetters, "dead letter"), terminal.Count(s.Redeliveries, "queued event"), terminal.Count(s.Parked, "parked event"), sink))
}

func (c *command) stateRenameCommand() *cobra.Command {
	return c.withJSON(c.withControl(&cobra.Command{
		Use:   "rename OLD NEW",
		Short: "Rename a sink in the state",
		Long: `Move the cursor, the dead letters and the queued redeliveries of a sink to another
name, so that a sink that is renamed in the configuration continues where it was. Stop
the bridge, rename the sink in the configuration, run this command, and start the
bridge; or, while it runs, take the sink out of the configuration and reload it, run this
command, add the sink with its new name, and reload again. If the bridge has already run
with the new name, the new name has a cursor of its own: take the sink out of the
configuration and run ndrbridge state forget with the new name first.`,
		Example: "  ndrbridge state rename lake datalake",
		Args:    exactly("OLD", "NEW"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.acting(cmd.Context(), func(state *admin.Client) error {
				if err := admin.API.RenameSink.Do(cmd.Context(), state, admin.RenameRequest{OfSink: admin.OfSink{Sink: args[0]}, To: args[1]}); err != nil {
					return err
				}
				return c.print(map[string]string{"renamed": args[0], "to": args[1]}, "the state of sink %s now belongs to %s", args[0], args[1])
			})
		},
	}))
}
