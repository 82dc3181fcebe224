package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/admin"
	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/configs"
)

func (c *command) healthCommand() *cobra.Command {
	var timeout time.Duration
	cmd := c.withConfig(&cobra.Command{
		Use:   "health",
		Short: "Tell by the exit code whether a bridge lives",
		Long: `Ask /healthz of a running bridge, at the address that --admin names, or else at
admin.listen of the configuration. The exit code is 0 when it lives, and 1 when it
does not answer, or with anything else than that. No token is needed.

It is for what restarts a bridge that hangs, such as a container's health check. A
bridge that lives may still have trouble: ask ndrbridge status, or /readyz.`,
		Example: `  ndrbridge health --config ndrbridge.yaml
  ndrbridge health --admin http://127.0.0.1:9600`,
		Args: commandline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if timeout <= 0 {
				return fmt.Errorf("%w: --timeout must be above 0", commandline.ErrUsage)
			}
			client, err := c.healthClient()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return client.Health(ctx)
		},
	})
	cmd.Flags().StringVar(&c.adminURL, "admin", "", "the address of a running bridge's admin interface, such as http://127.0.0.1:9600")
	cmd.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "how long the answer may take")
	return cmd
}

// healthClient needs no more of the configuration than the address, so that a
// bridge is not taken for dead because of a file that was edited under it.
func (c *command) healthClient() (*admin.Client, error) {
	if c.adminURL != "" {
		client, err := admin.NewClient(c.adminURL, "")
		if err != nil {
			return nil, fmt.Errorf("%w: --admin: %w", commandline.ErrUsage, err)
		}
		return client, nil
	}
	listen, err := configs.AdminListen(c.configFile, c.environ)
	if err != nil {
		return nil, err
	}
	return admin.NewClient("http://"+admin.DialAddress(listen), "")
}
