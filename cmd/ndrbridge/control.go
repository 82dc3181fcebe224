package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"ndrbridge/admin"
	"ndrbridge/checkpoint"
	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/configs"
	"ndrbridge/pipeline"
)

// helpOfControl is the last paragraph in the help of every command that acts on a bridge.
const helpOfControl = `The command acts on the bridge that runs with this configuration, through its admin API,
or directly on the state file if no bridge is running. In a cluster, a bridge must be
running, and any member acts for all. To act on a bridge without its configuration, give
its address with --admin and, if it requires a token, --token-file.`

// withControl adds the flags that select the bridge to act on.
func (c *command) withControl(cmd *cobra.Command) *cobra.Command {
	cmd.Long += "\n\n" + helpOfControl
	cmd.Flags().StringVar(&c.adminURL, "admin", "", "the address of a running bridge's admin API, such as http://127.0.0.1:9600")
	cmd.Flags().StringVar(&c.tokenFile, "token-file", "", "a file with the token of the admin API; requires --admin")
	return c.withConfig(cmd)
}

// acting calls act with the control of the running bridge, or of its state if no bridge
// is running.
func (c *command) acting(act func(admin.Control) error) (err error) {
	if c.adminURL != "" {
		client, err := c.givenClient()
		if err != nil {
			return err
		}
		return act(client)
	}
	config, err := c.actingConfig()
	if err != nil {
		return err
	}
	if config.Cluster.Enabled() {
		client, err := ownClient(config)
		if err != nil {
			return err
		}
		return notRunning(act(client))
	}
	offline, err := pipeline.OpenOffline(config, version, slog.New(slog.DiscardHandler))
	if err == nil {
		defer commandline.Close(offline.Close, &err)
		return act(offline)
	}
	if !errors.Is(err, checkpoint.ErrLocked) {
		return err
	}
	client, err := ownClient(config)
	if err != nil {
		return err
	}
	return act(client)
}

// actingConfig returns the configuration that selects the bridge to act on.
func (c *command) actingConfig() (*configs.Config, error) {
	if c.tokenFile != "" {
		return nil, fmt.Errorf("%w: --token-file requires --admin; otherwise the token is read from the configuration", commandline.ErrUsage)
	}
	config, err := configs.Load(c.configFile, c.environ)
	switch {
	case err != nil && c.configFile == "":
		return nil, fmt.Errorf("%w\nno configuration file was given: use --config FILE, set NDRBRIDGE_CONFIG, or give the address of a running bridge with --admin", err)
	case err != nil:
		return nil, fmt.Errorf("%w\nto act on a running bridge without its configuration, give its address with --admin and a file with its token with --token-file", err)
	}
	return config, nil
}

// ownClient returns a client of the bridge that runs with the configuration.
func ownClient(config *configs.Config) (*admin.Client, error) {
	token, err := config.Admin.Token.Read()
	if err != nil {
		return nil, fmt.Errorf("admin.token: %w", err)
	}
	return admin.NewClient("http://"+admin.DialAddress(config.Admin.Listen), token)
}

// notRunning adds advice to the error of a request to a member of a cluster that does not
// run.
func notRunning(err error) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%w\nno member of the cluster runs at admin.listen of this configuration: start it, or give the address of another member with --admin", err)
	}
	return err
}

// givenClient returns a client for the flags --admin and --token-file.
func (c *command) givenClient() (*admin.Client, error) {
	token := ""
	if c.tokenFile != "" {
		text, err := (configs.Secret{File: c.tokenFile}).Read()
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		token = strings.TrimSpace(text)
	}
	client, err := admin.NewClient(c.adminURL, token)
	if err != nil {
		return nil, fmt.Errorf("%w: --admin: %w", commandline.ErrUsage, err)
	}
	return client, nil
}
