package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/configs"
)

// run runs the command line until it is done or ctx is cancelled, and returns the exit
// code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c := &command{
		environ: os.Environ(), stdin: os.Stdin, stdout: stdout, stderr: stderr,
		interactive: terminal.Is(os.Stdin), terminal: terminal.Is(stdout), defaults: configs.DefaultPaths(),
		columns: func() (int, bool) { return terminal.Columns(stdout) },
	}
	return commandline.Run(ctx, c.root(), args, stdout, stderr)
}

// command holds what all commands share: the environment, the streams and common flags.
type command struct {
	environ        []string
	stdin          io.Reader
	lines          *bufio.Reader // of stdin; nil: no question was asked yet
	stdout, stderr io.Writer
	interactive    bool                             // stdin is a terminal
	terminal       bool                             // stdout is a terminal
	columns        func() (columns int, known bool) // its width; nil: unknown
	defaults       []string                         // the configuration files to look for if none is named

	// Flags that more than one command has.
	configFiles []string
	adminURL    string
	tokenFile   string
	givenTLS    givenTLS
	asJSON      bool
}

func (c *command) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "ndrbridge",
		Short: "Deliver events of network detection appliances to Kafka, NATS, webhooks, syslog and files",
		Long: `ndrbridge polls network detection appliances for detections, audit log entries and
records, and delivers them as CloudEvents to Kafka, NATS, webhooks, syslog and files. It
delivers every version of a detection at least once and in order, even after a crash.

The configuration is read from the files and folders given with --config, or else listed
in NDRBRIDGE_CONFIG, or else from ndrbridge.yaml in the working directory, or else from
/etc/ndrbridge/ndrbridge.yaml. NDRBRIDGE_ variables, one for each key, take precedence over
files; ndrbridge config print shows the result.

The help lists the commands cluster, rule and tickets once they are configured.

Output is coloured on a terminal unless NO_COLOR is set. COLUMNS sets its width. TZ is the
time zone of dates in flags.

The exit code of every command is 0 when it succeeded, 1 when it failed, 2 when its
arguments are wrong, and 78 when the configuration has an error.`,
		Example: `  ndrbridge config new kafka slack > ndrbridge.yaml   # then edit it
  ndrbridge check --config ndrbridge.yaml --connect
  ndrbridge run --config ndrbridge.yaml
  ndrbridge status --config ndrbridge.yaml`,
	}
	cluster, rule, tickets := c.clusterCommand(), c.ruleCommand(), c.ticketsCommand()
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Configure and run:", []*cobra.Command{c.configCommand(), c.checkCommand(), c.tryCommand(), c.runCommand(), c.reloadCommand()}},
		{"Observe:", []*cobra.Command{c.statusCommand(), c.tailCommand(), c.verifyCommand(), cluster}},
		{"Control:", []*cobra.Command{c.deadCommand(), c.replayCommand(), c.rewindCommand(), c.pauseCommand(), c.resumeCommand(), c.sendCommand(), c.hideCommand(), rule, tickets, c.stateCommand()}},
		{"About the program:", []*cobra.Command{c.versionCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, cmd := range g.commands {
			cmd.GroupID, cmd.SuggestFor = g.title, otherNames[cmd.Name()]
			root.AddCommand(cmd)
		}
		root.SetHelpCommandGroupID(g.title)
		root.SetCompletionCommandGroupID(g.title)
	}
	c.addCompletion(root)
	completeRest(root)
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd == root {
			cluster.Hidden, tickets.Hidden = c.unused()
			rule.Hidden = tickets.Hidden
		}
		help(cmd, args)
	})
	root.Version = thisBuild().String()
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	return root
}

// unused reports whether the configuration that the environment selects, or a default file, has
// neither a cluster nor ticket commands, so that the help need not list the commands about them.
func (c *command) unused() (cluster, tickets bool) {
	config, err := c.loadWithoutSecrets()
	if err != nil {
		files, err := c.source().Files()
		none := err == nil && len(files) == 0
		return none, none
	}
	return !config.Cluster.Enabled(), !config.Tickets.Enabled
}

// tryCommand returns the commands that try a configuration on events, and contact nothing.
func (c *command) tryCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "try",
		Short: "Try match expressions, routing, formats and tests of a configuration on events",
		Long: `Try a configuration, or parts of it, on events from ndrbridge tail --json, from a file sink
or from examples. Nothing is contacted and nothing is sent.`,
		Example: `  ndrbridge try match 'detection.risk_score >= 80' < events.jsonl
  ndrbridge try route --fixture detection.created`,
	}, c.matchCommand(), c.routeCommand(), c.renderCommand(), c.testCommand())
}

// otherNames are the names that other programs have for commands.
var otherNames = map[string][]string{
	"check":  {"doctor", "lint", "validate"},
	"config": {"configure", "generate", "init"},
	"dead":   {"dlq", "failed", "failures"},
	"hide":   {"mute", "silence", "snooze", "suppress"},
	"reload": {"restart"},
	"rule":   {"unhide"},
	"run":    {"agent", "daemon", "serve", "server", "start"},
	"state":  {"backup", "compact", "db"},
	"status": {"health", "healthcheck", "healthy", "info", "list", "ls", "ping", "ps", "ready", "show", "top"},
	"tail":   {"events", "follow", "listen", "log", "logs", "watch"},
	"try":    {"filter", "match", "preview", "query", "render", "route", "template", "test"},
}

// withConfig adds --config to a command.
func (c *command) withConfig(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringArrayVarP(&c.configFiles, "config", "c", nil,
		"a configuration file, or a folder of them, as `PATH`; repeat it to merge several (default $NDRBRIDGE_CONFIG, or else "+strings.Join(configs.DefaultPaths(), " or ")+")")
	return cmd
}

// source returns the source of the configuration that the flags and the environment select.
func (c *command) source() configs.Source {
	paths := c.configFiles
	if len(paths) == 0 {
		paths = filepath.SplitList(c.variable("NDRBRIDGE_CONFIG"))
		paths = slices.DeleteFunc(paths, func(path string) bool { return path == "" }) // as after a trailing colon
	}
	return configs.Source{Paths: paths, Defaults: c.defaults, Environ: c.environ}
}

// load loads the configuration that the flags and the environment select. Its errors have
// the exit code of errors in a configuration.
func (c *command) load() (*configs.Config, error) {
	config, err := configs.Load(c.source())
	if err != nil {
		return nil, &commandline.ConfigError{Err: err}
	}
	return config, nil
}

func (c *command) configCommand() *cobra.Command {
	return group(
		&cobra.Command{
			Use:   "config",
			Short: "Make a configuration, or print an example, the JSON Schema, or the effective one",
			Long: `Make a small configuration for chosen sinks, or print an example configuration file with
every key, the JSON Schema with which editors check a file, or the effective values of the
file, the environment and the defaults.`,
			Example: "  ndrbridge config new kafka slack > ndrbridge.yaml",
		},
		c.configNewCommand(),
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
				config, err := c.load()
				if err != nil {
					return err
				}
				return configs.Print(c.stdout, config)
			},
		}),
	)
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

// atMost permits one argument.
func atMost(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return argumentsError(cmd, "at most "+name, args)
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
