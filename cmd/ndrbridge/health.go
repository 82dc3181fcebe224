package main

import (
	"context"
	"fmt"
	"time"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
)

// health returns an error unless a running bridge reports within a time that it is alive.
func (c *command) health(ctx context.Context, timeout time.Duration) error {
	if timeout <= 0 {
		return fmt.Errorf("%w: --timeout must be above 0", commandline.ErrUsage)
	}
	client, err := c.healthClient()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return c.authorityAdvice(client.Health(ctx))
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
