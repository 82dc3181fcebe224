package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
)

func (c *command) clusterCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "cluster",
		Short: "Show and control a cluster of bridges",
		Long: `Show and control the cluster that bridges with the key cluster in their configuration
form. Each appliance belongs to a shard; one member at a time owns a shard, and another
one follows it to take over.`,
		Example: `  ndrbridge cluster status
  ndrbridge cluster handover bridge-1`,
	}, c.initCommand(), c.clusterStatusCommand(), c.handoverCommand(), c.adoptCommand(), c.recoverCommand())
}

func (c *command) clusterStatusCommand() *cobra.Command {
	return c.withJSON(c.withControl(&cobra.Command{
		Use:   "status",
		Short: "Show the members and the shards of a cluster",
		Long: `Show the live members of the cluster, its shards with their owners, and what to do about
problems, as seen by the member that answers.

  SINCE     when the member was started
  CONFIG    whether its configuration is the same as that of the member that answers:
            same, DIFFERS, or unknown for another version of the bridge. Secrets and the
            contents of files are not compared
  LEASE     how long the owner's lease lasts unless it is renewed
  FOLLOWER  the members that keep a copy of the shard's state; BEHIND counts the messages
            of the log that they have yet to apply
  LOG       the size of the log in NATS; SNAPSHOT is when its newest snapshot was made

Shard 00 also has the bridge's own events, and receives ticket commands from brokers.
The exit code is 0 regardless of the status.`,
		Example: `  ndrbridge cluster status --config ndrbridge.yaml
  ndrbridge cluster status --json | jq '.shards[] | select(.owner == null)'`,
		Args: commandline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withMember(func(member *admin.Client) error {
				state, err := admin.API.GetCluster.Call(cmd.Context(), member, admin.None{})
				if err != nil {
					return err
				}
				if c.asJSON {
					return c.printJSON(state)
				}
				c.printCluster(state, time.Now())
				return nil
			})
		},
	}))
}

func (c *command) handoverCommand() *cobra.Command {
	return c.withJSON(c.withControl(&cobra.Command{
		Use:   "handover MEMBER|SHARD",
		Short: "Hand shards over to other members",
		Long: `Hand over all shards that a member owns, or one shard by its number, to the members that
follow them. The owner stops the shard's polling, completes the batches in flight within
shutdown_timeout, and releases the shard; nothing is delivered twice. It fails if no member
follows a shard, or the follower has not caught up. Until the member starts again, it takes
these shards only if no other member can, and the shards are shared less evenly. To
move all shards off a member for good, stop it: it hands them over first.`,
		Example: `  ndrbridge cluster handover bridge-1
  ndrbridge cluster handover 03`,
		Args:              exactly("MEMBER|SHARD"),
		ValidArgsFunction: c.complete(shardNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			what := admin.Handover{Member: args[0]}
			if shard, err := strconv.Atoi(args[0]); err == nil { // no member has a number as its name
				what = admin.Handover{Shard: &shard}
			}
			return c.withMember(func(member *admin.Client) error {
				if err := admin.API.HandOver.Do(cmd.Context(), member, what); err != nil {
					return err
				}
				if what.Shard != nil {
					return c.print(what, "shard %s is handed over", configs.ShardName(*what.Shard))
				}
				return c.print(what, "the shards of %s are handed over", what.Member)
			})
		},
	}))
}

// withMember calls act with a client of a running member of the cluster.
func (c *command) withMember(act func(*admin.Client) error) error {
	if c.adminURL != "" {
		return c.actingOnGiven(act)
	}
	config, err := c.actingConfig()
	if err != nil {
		return err
	}
	if !config.Cluster.Enabled() {
		return errNoCluster
	}
	return c.actingOnMember(config, act)
}
