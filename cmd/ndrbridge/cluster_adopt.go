package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/checkpoint"
	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/configs"
	"ndrbridge/internal/bridge"
)

func (c *command) adoptCommand() *cobra.Command {
	yes := false
	cmd := c.withJSON(c.withConfig(&cobra.Command{
		Use:   "adopt STATE",
		Short: "Make the state of a single bridge the state of a new cluster",
		Long: `Create a new cluster, as ndrbridge cluster init does, and divide the state file of a bridge
that ran alone among its shards. Its members then continue where that bridge stopped:
with its positions, the known detections, what sinks remember, dead letters and ticket
commands. The events in the journal are not taken over, so the command fails unless every
sink has received all of them and no redelivery is queued.

Stop the bridge first, run the command with the configuration of the members, then start
the members. STATE is not changed; keep it as a backup, and do not start a bridge with it
again. If the command fails after it has begun to write, members do not join until the
streams are deleted, and the command is repeated: the error says which.`,
		Example:           "  ndrbridge cluster adopt /var/lib/ndrbridge/ndrbridge.db --config ndrbridge.yaml",
		Args:              exactly("STATE"),
		ValidArgsFunction: completeOne(completeFiles()),
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := c.loadCluster()
			if err != nil {
				return err
			}
			question := fmt.Sprintf("Make %s the state of the cluster %s?", args[0], config.Cluster.Name)
			if err := c.confirmLoss(cmd.Context(), yes, question); err != nil {
				return err
			}
			return c.adopt(cmd.Context(), config, args[0])
		},
	}))
	addYes(cmd, &yes)
	return cmd
}

func (c *command) adopt(ctx context.Context, config *configs.Config, state string) error {
	var written atomic.Int64
	err := terminal.NewProgress(c.stderr).While(func(time.Duration) string {
		return terminal.Bytes(written.Load()) + " written"
	}, func() error { return bridge.Adopt(ctx, config, state, written.Store) })
	switch {
	case errors.Is(err, checkpoint.ErrLocked), errors.Is(err, fs.ErrNotExist):
		return stateError(state, err)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("the adoption was interrupted: if it had begun to write, delete the streams NDR_%[1]s_NN and NDR_%[1]s_snap and the bucket NDR_%[1]s before you repeat it: %[2]w", config.Cluster.Name, err)
	case err != nil:
		return err
	}
	return c.print(struct {
		State   string `json:"state"`
		Cluster string `json:"cluster"`
		Bytes   int64  `json:"bytes"`
	}{state, config.Cluster.Name, written.Load()}, "%s is the state of the cluster %s (%s): start its members, and no bridge with %[1]s",
		terminal.Printable(state), config.Cluster.Name, terminal.Bytes(written.Load()))
}

// loadCluster is load for commands that require a cluster.
func (c *command) loadCluster() (*configs.Config, error) {
	config, err := c.load()
	if err == nil && !config.Cluster.Enabled() {
		err = errNoCluster
	}
	return config, err
}

// errNoCluster is returned by commands that require a cluster.
var errNoCluster = fmt.Errorf("%w: the configuration has no cluster, which this command requires", commandline.ErrUsage)
