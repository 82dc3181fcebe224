package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/configs"
)

// version is the program's version. The linker sets it for releases.
var version = "dev"

// run runs the command line until it is done or ctx is cancelled, and returns the exit
// code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c := &command{
		environ: os.Environ(), stdin: os.Stdin, stdout: stdout, stderr: stderr,
		interactive: terminal.Is(os.Stdin), terminal: terminal.Is(stdout),
	}
	return commandline.Run(ctx, c.root(), args, stdout, stderr)
}

// command holds what all commands share: the environment, the streams and common flags.
type command struct {
	environ        []string
	stdin          io.Reader
	stdout, stderr io.Writer
	interactive    bool // stdin is a terminal
	terminal       bool // stdout is a terminal

	// Flags that more than one command has.
	configFile string
	adminURL   string
	tokenFile  string
	asJSON     bool
}

func (c *command) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "ndrbridge",
		Short: "Deliver events of network detection appliances to Kafka, NATS, webhooks, syslog and files",
		Long: `ndrbridge polls network detection appliances for detections, audit log entries and
records, and delivers them as CloudEvents to Kafka, NATS, webhooks, syslog and files. It
delivers every version of a detection at least once and in order, even after a crash.`,
		Example: `  ndrbridge config example > ndrbridge.yaml   # then edit it
  ndrbridge check --config ndrbridge.yaml
  ndrbridge run --config ndrbridge.yaml
  ndrbridge status --config ndrbridge.yaml`,
	}
	root.AddCommand(c.runCommand(), c.checkCommand(), c.configCommand(),
		c.statusCommand(), c.clusterCommand(), c.healthCommand(), c.tailCommand(), c.deadCommand(), c.replayCommand(), c.pauseCommand(), c.resumeCommand(),
		c.ticketsCommand(), c.matchCommand(), c.renderCommand(), c.rewindCommand(), c.verifyCommand(), c.stateCommand(), c.versionCommand())
	c.addCompletion(root)
	root.Version = version
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	return root
}

// withConfig adds --config to a command.
func (c *command) withConfig(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVarP(&c.configFile, "config", "c", c.variable("NDRBRIDGE_CONFIG"),
		"the configuration file (default $NDRBRIDGE_CONFIG); without one, only NDRBRIDGE_ variables are used")
	return cmd
}

func (c *command) configCommand() *cobra.Command {
	return group(
		&cobra.Command{
			Use:   "config",
			Short: "Print an example configuration, its JSON Schema, or the effective one",
			Long: `Print an example configuration file with every key, the JSON Schema with which editors
check a file, or the effective values of the file, the environment and the defaults.`,
			Example: "  ndrbridge config example > ndrbridge.yaml",
		},
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
		&cobra.Command{
			Use:   "schema",
			Short: "Print the JSON Schema of a configuration file",
			Long: `Print the JSON Schema (draft 2020-12) of a configuration file. With it, editors complete
and check a file that begins with this line:
# yaml-language-server: $schema=ndrbridge.schema.json`,
			Example: "  ndrbridge config schema > ndrbridge.schema.json",
			Args:    commandline.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				_, err := c.stdout.Write(configs.Schema())
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

// group makes cmd the parent of children. Without arguments it prints its help; an unknown
// child is a usage error.
func group(cmd *cobra.Command, children ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(children...)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		var names []string
		for _, child := range cmd.Commands() {
			names = append(names, child.Name())
		}
		return fmt.Errorf("%w: %s has no command %q; use one of %s", commandline.ErrUsage, cmd.CommandPath(), args[0], strings.Join(names, ", "))
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}

// exactly requires one argument for each name.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return argumentsError(cmd, strings.Join(names, " "), args)
		}
		return nil
	}
}

// atLeast requires an argument and permits more.
func atLeast(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return argumentsError(cmd, "at least "+name, args)
		}
		return nil
	}
}

func argumentsError(cmd *cobra.Command, required string, args []string) error {
	return fmt.Errorf("%w: %s requires %s, got %s", commandline.ErrUsage, cmd.CommandPath(), required, terminal.Count(len(args), "argument"))
}

// parseTime parses the value of a flag: a time in RFC 3339, a negative duration relative
// to now, or beginning, which is 1970.
func parseTime(flag, text string) (time.Time, error) {
	const advice = "write -7d, beginning, or a time such as 2026-01-31T08:00:00Z"
	if text == "" {
		return time.Time{}, fmt.Errorf("%w: --%s is missing; %s", commandline.ErrUsage, flag, advice)
	}
	var start configs.Start
	if err := start.UnmarshalText([]byte(text)); err != nil || start.IsNow() {
		return time.Time{}, fmt.Errorf("%w: --%s: %q is not a time in the past; %s", commandline.ErrUsage, flag, text, advice)
	}
	if at := start.At(time.Now()); !at.IsZero() {
		return at, nil
	}
	return time.UnixMilli(0), nil
}
