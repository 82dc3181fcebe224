package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/spf13/cobra"

	"ndrbridge/bridge"
	"ndrbridge/checkpoint"
	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/configs"
)

func (c *command) recoverCommand() *cobra.Command {
	yes, from := false, ""
	cmd := c.withJSON(c.withConfig(&cobra.Command{
		Use:   "recover SHARD",
		Short: "Continue a shard from a member's copy of its state",
		Long: `Continue the log of a shard from a member's copy of its state, if NATS has lost a part of
the log so that no member can own the shard. What the log has beyond the copy is lost:
events of that time are read and delivered again, ticket commands and operators' actions
are gone. Members recover a log that lost only its end by themselves.

Run it on the machine of the member with the newest copy, the file state.NN, and stop that
member before. The command fails if any member owns the shard. The copy is renamed; members
restore the state from NATS.`,
		Example: `  ndrbridge cluster recover 03 --config ndrbridge.yaml
  ndrbridge cluster recover 03 --from /backup/state.db.03 --config ndrbridge.yaml`,
		Args: exactly("SHARD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := configs.Load(c.configFile, c.environ)
			if err != nil {
				return err
			}
			if !config.Cluster.Enabled() {
				return errNoCluster
			}
			shard, err := strconv.Atoi(args[0])
			if err != nil || shard < 0 || shard >= config.Cluster.Shards {
				return fmt.Errorf("%w: %q is not a shard; write 00 to %s", commandline.ErrUsage, args[0], configs.ShardName(config.Cluster.Shards-1))
			}
			path := cmp.Or(from, config.Shard(shard).State)
			kept, err := bridge.Recover(cmd.Context(), config, shard, path, func(r bridge.Recovery) error {
				return c.confirm(cmd.Context(), yes, fmt.Sprintf("Continue shard %s, whose log ends with message %d, from %s, which has it up to message %d?",
					configs.ShardName(r.Shard), r.Last, terminal.Printable(r.Path), r.Offset))
			})
			switch {
			case errors.Is(err, checkpoint.ErrLocked), errors.Is(err, fs.ErrNotExist):
				return stateError(path, err)
			case err != nil:
				return err
			}
			return c.print(struct {
				Shard int    `json:"shard"`
				Kept  string `json:"kept"`
			}{shard, kept}, "shard %s is recovered; its copy is kept as %s: start the member", configs.ShardName(shard), terminal.Printable(kept))
		},
	}))
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	cmd.Flags().StringVar(&from, "from", "", "the file of the copy (default the shard's file of this member)")
	return cmd
}
