package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"ndrbridge/bridge"
	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/configs"
)

// version is set when a release is linked.
var version = "dev"

// run runs the command line until ctx ends, and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c := &command{environ: os.Environ(), stdout: stdout, stderr: stderr}
	return commandline.Run(ctx, c.root(), args, stdout, stderr)
}

type command struct {
	environ        []string
	stdout, stderr io.Writer
	configFile     string
	adminURL       string
	tokenFile      string
}

func (c *command) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "ndrbridge",
		Short: "Deliver a network detection appliance's detections to Kafka, NATS, webhooks and files",
		Long: `ndrbridge polls network detection appliances for detections and delivers every
version of them as CloudEvents to Kafka, NATS, webhooks and files: at least once,
in order per detection, whatever crashes in between.`,
		Example: `  ndrbridge config example > ndrbridge.yaml   # then edit it
  ndrbridge check --config ndrbridge.yaml
  ndrbridge run --config ndrbridge.yaml`,
	}
	root.AddCommand(c.runCommand(), c.checkCommand(), c.configCommand(),
		c.rewindCommand(), c.verifyCommand(), c.versionCommand())
	return root
}

// withConfig adds --config to a command.
func (c *command) withConfig(cmd *cobra.Command) *cobra.Command {
	fromEnvironment := ""
	for _, variable := range c.environ {
		if value, ok := strings.CutPrefix(variable, "NDRBRIDGE_CONFIG="); ok {
			fromEnvironment = value
		}
	}
	cmd.Flags().StringVarP(&c.configFile, "config", "c", fromEnvironment,
		"the configuration file; without one, NDRBRIDGE_ variables alone (or NDRBRIDGE_CONFIG names it)")
	return cmd
}

func (c *command) runCommand() *cobra.Command {
	return c.withConfig(&cobra.Command{
		Use:   "run",
		Short: "Run the service",
		Long: `Run the service until SIGINT or SIGTERM. Polling stops first; batches in flight
are given shutdown_timeout to end. A second signal ends it at once: what was not
acknowledged is delivered again at the next start.`,
		Example: "  ndrbridge run --config ndrbridge.yaml",
		Args:    commandline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := configs.Load(c.configFile, c.environ)
			if err != nil {
				return err
			}
			tuneMemory(c.environ, len(config.Appliances)+len(config.Sinks))
			b, err := bridge.New(cmd.Context(), config, bridge.Options{
				Version: version, Log: bridge.NewLog(c.stderr, config.Log), Stdout: c.stdout,
			})
			if err != nil {
				return err
			}
			return b.Run(cmd.Context())
		},
	})
}

func (c *command) checkCommand() *cobra.Command {
	return c.withConfig(&cobra.Command{
		Use:   "check",
		Short: "Check the configuration and print what would run",
		Long: `Check the configuration file and the environment. Every mistake is printed, with
its place in the file and the path of its key. Nothing is contacted.`,
		Example: "  ndrbridge check --config ndrbridge.yaml",
		Args:    commandline.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			config, err := configs.Load(c.configFile, c.environ)
			if err != nil {
				fmt.Fprintln(c.stderr, err)
				return commandline.ErrTold
			}
			printPlan(c.stdout, config)
			return nil
		},
	})
}

func (c *command) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print an example configuration, or the effective one",
		Args:  commandline.NoArgs,
	}
	cmd.AddCommand(
		&cobra.Command{
			Use:     "example",
			Short:   "Print a commented configuration file with every key",
			Example: "  ndrbridge config example > ndrbridge.yaml",
			Args:    commandline.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				_, err := c.stdout.Write(configs.Example())
				return err
			},
		},
		c.withConfig(&cobra.Command{
			Use:     "print",
			Short:   "Print the effective values of file, environment and defaults, with secrets hidden",
			Example: "  ndrbridge config print --config ndrbridge.yaml",
			Args:    commandline.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				config, err := configs.Load(c.configFile, c.environ)
				if err != nil {
					return err
				}
				return configs.Print(c.stdout, config)
			},
		}),
	)
	return cmd
}

func (c *command) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  commandline.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(c.stdout, "ndrbridge", version)
			return err
		},
	}
}
