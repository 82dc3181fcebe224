package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
)

func (c *command) clusterCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "cluster",
		Short: "Create, show and control a cluster of bridges",
		Long: `Create, show and control the cluster that bridges with the key cluster in their
configuration form. Its state is a log in NATS. One member owns the log: it polls and
delivers. The others are standbys: they follow the log with a copy of the state, and one of
them takes over if the owner fails.`,
		Example: `  ndrbridge cluster init --config ndrbridge.yaml
  ndrbridge cluster status --config ndrbridge.yaml`,
	}, c.initCommand(), c.clusterStatusCommand(), c.handoverCommand(), c.recoverCommand(), c.exportCommand())
}

func (c *command) clusterStatusCommand() *cobra.Command {
	return c.withJSON(c.withControl(&cobra.Command{
		Use:   "status",
		Short: "Show the log and the members of a cluster",
		Long: `Show the log of the cluster, its owner, the members that can be reached, and what to do
about problems, as seen by the member that answers. It answers without an owner, too.

  STATE       owning: it polls and delivers; following: it applies the log to its copy of
              the state; taking and releasing: it becomes or ceases to be the owner; away:
              it can do neither, and NOTE has the reason
  SINCE       when the member was started
  GENERATION  the generation of the log that its copy has: each recovery begins the next
  OFFSET      the last message of the log that its copy has; BEHIND counts the messages
              that it has yet to apply
  CONFIG      whether its configuration is the same as the owner's: same, DIFFERS, or
              unknown for another version of the bridge. Secrets and the contents of files
              are not compared

The exit code is 0 regardless of the status.`,
		Example: `  ndrbridge cluster status --config ndrbridge.yaml
  ndrbridge cluster status --json | jq '.members[] | select(.ready | not)'`,
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
		Use:   "handover",
		Short: "Hand the log over to another member",
		Long: `Have the owner hand the log over to a member that follows it. The owner stops polling,
completes the batches in flight within shutdown_timeout, and releases the log; nothing is
delivered twice. The command returns when the other member owns the log. It fails if no
other member follows the log, or none has caught up with it.

Before you stop the owner, for example to update it, this is not necessary: a member that
is stopped hands over first.`,
		Example: "  ndrbridge cluster handover --config ndrbridge.yaml",
		Args:    commandline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withMember(func(member *admin.Client) error {
				if err := admin.API.HandOver.Do(cmd.Context(), member, admin.None{}); err != nil {
					return err
				}
				return c.print(struct {
					HandedOver bool `json:"handed_over"`
				}{true}, "the log is handed over to another member")
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
