package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/spf13/cobra"

	"ndrbridge/admin"
	"ndrbridge/bridge"
	"ndrbridge/checkpoint"
	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/configs"
)

func (c *command) recoverCommand() *cobra.Command {
	yes, from, file := false, "", ""
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "recover SHARD",
		Short: "Continue a shard from a member's copy of its state",
		Long: `Continue the log of a shard from a copy of its state, if NATS has lost a part of the log
so that no member can own the shard. What the log has beyond the copy is lost: events of
that time are read and delivered again, ticket commands and operators' actions are gone.
Members recover a log that lost only its end by themselves.

With --from, a running member uses its copy, which it first brings as far as the log
leads; a member without a copy restores one from NATS. If the member has set a copy aside
(state.db.NN.lost) that leads further, it uses that one, and sets the other one aside unless
NATS can restore it. All members then continue from it. The command takes a little longer
than cluster.lease, and fails if a member owns the shard.

With --from-file, the command itself uses a file that no process has open, from an archive
of ndrbridge state backup or of a stopped member. It needs the configuration of a member.
The file is renamed, because no member may use it again.`,
		Example: `  ndrbridge cluster recover 03 --from bridge-1
  ndrbridge cluster recover 03 --from-file /backup/state.db.03 --config ndrbridge.yaml`,
		Args:              exactly("SHARD"),
		ValidArgsFunction: c.complete(shardNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			shard, err := strconv.Atoi(args[0])
			switch {
			case err != nil || shard < 0:
				return fmt.Errorf("%w: %q is not a shard; write its number, such as 03", commandline.ErrUsage, args[0])
			case (from == "") == (file == ""):
				return fmt.Errorf("%w: give either --from MEMBER or --from-file FILE", commandline.ErrUsage)
			case file != "":
				return c.recoverFromFile(cmd.Context(), shard, file, yes)
			}
			question := fmt.Sprintf("Continue shard %s from the copy of %s? What its log has beyond the copy is lost.", configs.ShardName(shard), terminal.Printable(from))
			if err := c.confirmLoss(cmd.Context(), yes, question); err != nil {
				return err
			}
			what := admin.Recovery{Shard: &shard, From: from}
			return c.withMember(func(member *admin.Client) error {
				if err := member.Recover(cmd.Context(), what); err != nil {
					return err
				}
				return c.print(what, "shard %s is recovered from the copy of %s", configs.ShardName(shard), terminal.Printable(from))
			})
		},
	}))
	addYes(cmd, &yes)
	cmd.Flags().StringVar(&from, "from", "", "the running member that has the newest copy")
	cmd.Flags().StringVar(&file, "from-file", "", "the file of the copy, which no process has open")
	return cmd
}

// recoverFromFile continues a shard from the copy at a path.
func (c *command) recoverFromFile(ctx context.Context, shard int, path string, yes bool) error {
	if c.adminURL != "" || c.tokenFile != "" {
		return fmt.Errorf("%w: --from-file does not act on a running member: use it without --admin and --token-file", commandline.ErrUsage)
	}
	config, err := c.load()
	switch {
	case err != nil:
		return err
	case !config.Cluster.Enabled():
		return errNoCluster
	case shard >= config.Cluster.Shards:
		return fmt.Errorf("%w: %d is not a shard; write 00 to %s", commandline.ErrUsage, shard, configs.ShardName(config.Cluster.Shards-1))
	}
	kept, err := bridge.Recover(ctx, config, shard, path, func(r bridge.Recovery) error {
		return c.confirmLoss(ctx, yes, fmt.Sprintf("Continue shard %s, whose log ends with message %d, from %s, which has it up to message %d?",
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
	}{shard, kept}, "shard %s is recovered; its copy is kept as %s", configs.ShardName(shard), terminal.Printable(kept))
}
