package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
)

func (c *command) healthCommand() *cobra.Command {
	var timeout time.Duration
	cmd := c.withConfig(&cobra.Command{
		Use:   "health",
		Short: "Check with the exit code whether a bridge is alive",
		Long: `Request /healthz from a running bridge, at the address given with --admin, or else at
admin.listen of the configuration. The exit code is 0 if the bridge reports that it is
alive, and 1 otherwise. No token is needed.

Use it to restart a bridge that hangs, for example as a container's health check. A
bridge that is alive may still have problems: see ndrbridge status or /readyz.`,
		Example: `  ndrbridge health --config ndrbridge.yaml
  ndrbridge health --admin http://127.0.0.1:9600
  ndrbridge health --admin https://ndr.example:9600 --ca-file ca.pem`,
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
			return c.authorityAdvice(client.Health(ctx))
		},
	})
	cmd.Flags().StringVar(&c.adminURL, "admin", "", "the address of a running bridge's admin interface, such as http://127.0.0.1:9600")
	c.givenTLS.addFlags(cmd.Flags())
	cmd.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "how long to wait for the response")
	return cmd
}

// healthClient returns a client of the bridge to check. It reads only admin.listen and
// admin.tls from the configuration, so that a mistake in a file that is being edited does
// not make a running bridge look dead.
func (c *command) healthClient() (*admin.Client, error) {
	if c.adminURL != "" {
		return c.givenClient()
	}
	if err := c.errOnlyGiven(); err != nil {
		return nil, err
	}
	config, err := configs.LoadControl(c.source(), "admin.listen")
	if err != nil {
		return nil, &commandline.ConfigError{Err: err}
	}
	return admin.NewOwnClient(config.Admin.Listen, "", admin.TLS(config.Admin.TLS))
}
