package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"ndrbridge/bridge"
	"ndrbridge/configs"
)

// version is set when a release is linked.
var version = "dev"

// The exit codes: done, failed, wrong usage.
const (
	exitDone = iota
	exitFailed
	exitUsage
)

// errUsage marks the errors of a command line that cannot be understood.
var errUsage = errors.New("wrong usage")

// errTold marks a failure that has been printed already.
var errTold = errors.New("failed")

// run runs the command line and returns the exit code.
func run(args, environ []string, stdout, stderr io.Writer) int {
	c := &command{environ: environ, stdout: stdout, stderr: stderr}
	root := c.root()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	switch err := root.Execute(); {
	case err == nil:
		return exitDone
	case errors.Is(err, errTold):
		return exitFailed
	case errors.Is(err, errUsage), strings.HasPrefix(err.Error(), "unknown command"):
		fmt.Fprintf(stderr, "ndrbridge: %v\nSee ndrbridge --help.\n", err)
		return exitUsage
	default:
		fmt.Fprintf(stderr, "ndrbridge: %v\n", err)
		return exitFailed
	}
}

type command struct {
	environ        []string
	stdout, stderr io.Writer
	configFile     string
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
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return fmt.Errorf("%w: %w", errUsage, err) })
	root.AddCommand(c.runCommand(), c.checkCommand(), c.configCommand(), c.versionCommand())
	return root
}

// noArgs is cobra.NoArgs with an error that says it is the usage.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%w: %s takes no argument, and %q was given", errUsage, cmd.CommandPath(), args[0])
	}
	return nil
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
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := configs.Load(c.configFile, c.environ)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			// Once the first signal has arrived, the next one has its default
			// effect again.
			context.AfterFunc(ctx, stop)

			b, err := bridge.New(ctx, config, bridge.Options{
				Version: version, Log: bridge.NewLog(c.stderr, config.Log), Stdout: c.stdout,
			})
			if err != nil {
				return err
			}
			return b.Run(ctx)
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
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			config, err := configs.Load(c.configFile, c.environ)
			if err != nil {
				fmt.Fprintln(c.stderr, err)
				return errTold
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
		Args:  noArgs,
	}
	cmd.AddCommand(
		&cobra.Command{
			Use:     "example",
			Short:   "Print a commented configuration file with every key",
			Example: "  ndrbridge config example > ndrbridge.yaml",
			Args:    noArgs,
			RunE: func(*cobra.Command, []string) error {
				_, err := c.stdout.Write(configs.Example())
				return err
			},
		},
		c.withConfig(&cobra.Command{
			Use:     "print",
			Short:   "Print the effective values of file, environment and defaults, with secrets hidden",
			Example: "  ndrbridge config print --config ndrbridge.yaml",
			Args:    noArgs,
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
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(c.stdout, "ndrbridge", version)
			return err
		},
	}
}
