package main

import (
	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/internal/bridge"
)

func (c *command) initCommand() *cobra.Command {
	return c.withJSON(c.withConfig(&cobra.Command{
		Use:   "init",
		Short: "Create a new cluster",
		Long: `Create the streams and the bucket of a new cluster in NATS, and its identity. Run it once,
with the configuration of the members, before or after they are started: they wait for it.

It fails if the cluster exists, or this machine has a copy of a shard. Do not create a cluster
again that has run, because its members then begin with an empty state: if NATS has lost its
data, see ndrbridge cluster recover.`,
		Example: "  ndrbridge cluster init --config ndrbridge.yaml",
		Args:    commandline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := c.loadCluster()
			if err != nil {
				return err
			}
			if err := bridge.Init(cmd.Context(), config); err != nil {
				return err
			}
			return c.print(struct {
				Cluster string `json:"cluster"`
			}{config.Cluster.Name}, "the cluster %s is created: start its members", config.Cluster.Name)
		},
	}))
}
