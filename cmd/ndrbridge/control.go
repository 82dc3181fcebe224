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

// control returns the control of the running bridge, or of its state if no bridge is
// running. The caller must call close.
func (c *command) control() (_ admin.Control, close func() error, err error) {
	none := func() error { return nil }
	if c.adminURL != "" {
		token := ""
		if c.tokenFile != "" {
			text, err := (configs.Secret{File: c.tokenFile}).Read()
			if err != nil {
				return nil, nil, fmt.Errorf("--token-file: %w", err)
			}
			token = strings.TrimSpace(text)
		}
		client, err := admin.NewClient(c.adminURL, token)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: --admin: %w", commandline.ErrUsage, err)
		}
		return client, none, nil
	}
	if c.tokenFile != "" {
		return nil, nil, fmt.Errorf("%w: --token-file requires --admin; otherwise the token is read from the configuration", commandline.ErrUsage)
	}
	config, err := configs.Load(c.configFile, c.environ)
	switch {
	case err != nil && c.configFile == "":
		return nil, nil, fmt.Errorf("%w\nno configuration file was given: use --config FILE, set NDRBRIDGE_CONFIG, or give the address of a running bridge with --admin", err)
	case err != nil:
		return nil, nil, fmt.Errorf("%w\nto act on a running bridge without its configuration, give its address with --admin and a file with its token with --token-file", err)
	}
	offline, err := pipeline.OpenOffline(config, version, slog.New(slog.DiscardHandler))
	if err == nil {
		return offline, offline.Close, nil
	}
	if !errors.Is(err, checkpoint.ErrLocked) {
		return nil, nil, err
	}
	token, err := config.Admin.Token.Read()
	if err != nil {
		return nil, nil, fmt.Errorf("admin.token: %w", err)
	}
	client, err := admin.NewClient("http://"+admin.DialAddress(config.Admin.Listen), token)
	return client, none, err
}
