package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"ndrbridge/admin"
	"ndrbridge/checkpoint"
	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/configs"
	"ndrbridge/pipeline"
)

// helpOfControl is the last paragraph in the help of every command that acts on a bridge.
const helpOfControl = `The command acts on the bridge that runs with this configuration, through its admin API,
or directly on the state file if no bridge is running. To act on a bridge without its
configuration, give its address with --admin and, if it requires a token, --token-file.`

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
	if c.tokenFile != "" {
		return fmt.Errorf("%w: --token-file requires --admin; otherwise the token is read from the configuration", commandline.ErrUsage)
	}
	config, err := configs.Load(c.configFile, c.environ)
	switch {
	case err != nil && c.configFile == "":
		return fmt.Errorf("%w\nno configuration file was given: use --config FILE, set NDRBRIDGE_CONFIG, or give the address of a running bridge with --admin", err)
	case err != nil:
		return fmt.Errorf("%w\nto act on a running bridge without its configuration, give its address with --admin and a file with its token with --token-file", err)
	}
	offline, err := pipeline.OpenOffline(config, version, slog.New(slog.DiscardHandler))
	if err == nil {
		defer commandline.Close(offline.Close, &err)
		return act(offline)
	}
	if !errors.Is(err, checkpoint.ErrLocked) {
		return err
	}
	token, err := config.Admin.Token.Read()
	if err != nil {
		return fmt.Errorf("admin.token: %w", err)
	}
	client, err := admin.NewClient("http://"+admin.DialAddress(config.Admin.Listen), token)
	if err != nil {
		return err
	}
	return act(client)
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
