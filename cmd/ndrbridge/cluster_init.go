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

func (c *command) initCommand() *cobra.Command {
	yes, adopt := false, ""
	cmd := c.withJSON(c.withConfig(&cobra.Command{
		Use:   "init",
		Short: "Create a new cluster, empty or with the state of a single bridge",
		Long: `Create the streams of a new cluster in NATS, and its identity. Run it once,
with the configuration of a member, before or after the members are started: they wait for
it. It fails if the cluster exists, or this machine has a state at the path of a member's.

With --adopt, the cluster begins with the state file of a bridge that ran alone. Its
members continue where that bridge stopped, with everything that the file has: positions,
undelivered events, queued redeliveries, dead letters and ticket commands. Stop the bridge
first, and do not start it with that file again: both would deliver the same events. The
file is not changed; keep it as a backup, but at another path than the state of a member.

Do not create a cluster again that has run: its members would begin with an empty state.
If NATS has lost its data, see ndrbridge cluster recover.`,
		Example: `  ndrbridge cluster init --config ndrbridge.yaml
  ndrbridge cluster init --adopt /var/lib/ndrbridge/single.db --config ndrbridge.yaml`,
		Args: commandline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := c.loadCluster()
			if err != nil {
				return err
			}
			if adopt == "" {
				if err := bridge.Init(cmd.Context(), config, "", func(int64) {}); err != nil {
					return err
				}
				return c.print(struct {
					Cluster string `json:"cluster"`
				}{config.Cluster.Name}, "the cluster %s is created: start its members", config.Cluster.Name)
			}
			question := fmt.Sprintf("Make %s the state of the cluster %s?", terminal.Printable(adopt), config.Cluster.Name)
			if err := c.confirmLoss(cmd.Context(), yes, question); err != nil {
				return err
			}
			return c.adopt(cmd.Context(), config, adopt)
		},
	}))
	addYes(cmd, &yes)
	cmd.Flags().StringVar(&adopt, "adopt", "", "begin with `STATE`, the state file of a bridge that ran alone")
	completeFlagBy(cmd, "adopt", completeFiles())
	return cmd
}

// adopt creates a cluster that begins with a state file.
func (c *command) adopt(ctx context.Context, config *configs.Config, state string) error {
	var written atomic.Int64
	err := terminal.NewProgress(c.stderr).While(func(time.Duration) string {
		return terminal.Bytes(written.Load()) + " written"
	}, func() error { return bridge.Init(ctx, config, state, written.Store) })
	switch {
	case errors.Is(err, checkpoint.ErrLocked), errors.Is(err, fs.ErrNotExist):
		return stateError(state, err)
	case err != nil:
		return err
	}
	next := "start its members"
	if samePath(state, config.State) {
		next = "move that file away, and start its members"
	}
	return c.print(struct {
		Cluster string `json:"cluster"`
		State   string `json:"state"`
		Bytes   int64  `json:"bytes"`
	}{config.Cluster.Name, state, written.Load()}, "the cluster %s is created with the state of %s (%s): %s",
		config.Cluster.Name, terminal.Printable(state), terminal.Bytes(written.Load()), next)
}
