package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"ndrbridge/checkpoint"
	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/bridge"
)

func (c *command) recoverCommand() *cobra.Command {
	yes, from, file := false, "", ""
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "recover SHARD|all",
		Short: "Continue shards from copies of their state",
		Long: `Continue the log of a shard from a copy of its state, if NATS has lost the log or a part of
it. No member takes the shard until then, because only an operator can know which copy is
the latest. Messages of the log that the copy lacks are lost: events of that time are read
and delivered again, ticket commands and operators' actions are gone.

With --from, a running member uses its copy, after it has applied the rest of the log to it;
a member without a copy restores one from NATS. If the member has set aside a copy with more
messages (state.db.NN.lost), it uses that one, and sets the other one aside unless NATS can
restore it. All members then continue from it. The command takes a little longer than
cluster.lease, and fails if a member owns the shard.

With --from-file, the command itself uses a file that no process has open, from an archive
of ndrbridge state backup or of a stopped member. It needs the configuration of a member,
and creates what NATS has lost. The file is renamed, because no member may use it again. For
all shards, give the path without their numbers. Before the command changes anything, it shows
the last message of each copy, so that you can compare the members, and asks.`,
		Example: `  ndrbridge cluster recover 03 --from bridge-1
  ndrbridge cluster recover 03 --from-file /backup/state.db.03 --config ndrbridge.yaml
  ndrbridge cluster recover all --from-file /backup/state.db --config ndrbridge.yaml`,
		Args:              exactly("SHARD|all"),
		ValidArgsFunction: c.complete(shardNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			shard, err := strconv.Atoi(args[0])
			switch {
			case args[0] == allShards && from != "":
				return fmt.Errorf("%w: --from continues one shard; write its number", commandline.ErrUsage)
			case args[0] != allShards && (err != nil || shard < 0):
				return fmt.Errorf("%w: %q is not a shard; write its number, such as 03, or all", commandline.ErrUsage, args[0])
			case (from == "") == (file == ""):
				return fmt.Errorf("%w: give either --from MEMBER or --from-file FILE", commandline.ErrUsage)
			case file != "":
				return c.recoverFromFile(cmd.Context(), args[0], file, yes)
			}
			question := fmt.Sprintf("Continue shard %s from the copy of %s? What its log has beyond the copy is lost.", configs.ShardName(shard), terminal.Printable(from))
			if err := c.confirmLoss(cmd.Context(), yes, question); err != nil {
				return err
			}
			what := admin.Recovery{Shard: &shard, From: from}
			return c.withMember(func(member *admin.Client) error {
				if err := admin.API.RecoverShard.Do(cmd.Context(), member, what); err != nil {
					return err
				}
				return c.print(what, "shard %s is recovered from the copy of %s", configs.ShardName(shard), terminal.Printable(from))
			})
		},
	}))
	addYes(cmd, &yes)
	cmd.Flags().StringVar(&from, "from", "", "the running member that has the newest copy")
	cmd.Flags().StringVar(&file, "from-file", "", "the file of the copy, which no process has open; for all shards, its path without their numbers")
	return cmd
}

// allShards is written for all shards instead of a number.
const allShards = "all"

// recoverFromFile continues shards from copies: one from the file at a path, or all from those
// whose names are the path and the number of the shard.
func (c *command) recoverFromFile(ctx context.Context, shard, path string, yes bool) error {
	if c.adminURL != "" || c.tokenFile != "" {
		return fmt.Errorf("%w: --from-file does not act on a running member: use it without --admin and --token-file", commandline.ErrUsage)
	}
	config, err := c.loadCluster()
	if err != nil {
		return err
	}
	var copies []*bridge.Recovery
	if shard == allShards {
		for n := range config.Cluster.Shards {
			copies = append(copies, &bridge.Recovery{Shard: n, Path: path + "." + configs.ShardName(n)})
		}
	} else {
		n, _ := strconv.Atoi(shard) // it is a number
		if n >= config.Cluster.Shards {
			return fmt.Errorf("%w: %d is not a shard; write 00 to %s", commandline.ErrUsage, n, configs.ShardName(config.Cluster.Shards-1))
		}
		copies = append(copies, &bridge.Recovery{Shard: n, Path: path})
	}
	err = bridge.Recover(ctx, config, copies, func() error {
		var lines []string
		for _, r := range copies {
			lines = append(lines, fmt.Sprintf("Continue shard %s, whose log ends with message %d, from %s, which has it up to message %d?",
				configs.ShardName(r.Shard), r.Last, terminal.Printable(r.Path), r.Offset))
		}
		return c.confirmLoss(ctx, yes, strings.Join(lines, "\n"))
	})
	for _, r := range copies {
		if r.Kept == "" {
			continue
		}
		err = errors.Join(err, c.print(struct {
			Shard int    `json:"shard"`
			Kept  string `json:"kept"`
		}{r.Shard, r.Kept}, "shard %s is recovered; its copy is kept as %s", configs.ShardName(r.Shard), terminal.Printable(r.Kept)))
	}
	if errors.Is(err, checkpoint.ErrLocked) || errors.Is(err, fs.ErrNotExist) {
		return stateError(path, err)
	}
	return err
}
