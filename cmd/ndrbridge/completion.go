package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ndrbridge/configs"
	"ndrbridge/internal/pipeline"
)

// addCompletion adds cobra's completion command to root.
func (c *command) addCompletion(root *cobra.Command) {
	root.SetOut(c.stdout) // cobra prints the scripts there
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() != "completion" {
			continue
		}
		cmd.Short = "Print a script that lets a shell complete commands, flags and names"
		cmd.Long = `Print a script that lets a shell complete the commands and flags of ndrbridge, and
the names of the sinks, appliances and streams in the configuration that
NDRBRIDGE_CONFIG or --config names. The help of each shell's command says how to
install its script.`
		cmd.Example = `  source <(ndrbridge completion bash)
  ndrbridge completion zsh > "${fpath[1]}/_ndrbridge"
  ndrbridge completion fish > ~/.config/fish/completions/ndrbridge.fish`
		group(cmd)
	}
}

// completeRest makes shells propose files for --config and for flags that end in -file, and none for
// other flags and arguments whose values nothing else completes.
func completeRest(cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		if child.Name() != "completion" && child.Name() != "help" { // cobra's own
			completeRest(child)
		}
	}
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, completed := cmd.GetFlagCompletionFunc(f.Name); completed {
			return
		}
		values := cobra.CompletionFunc(cobra.NoFileCompletions)
		switch {
		case f.Name == "config":
			values = completeFiles("yaml", "yml")
		case strings.HasSuffix(f.Name, "-file"):
			values = completeFiles()
		}
		completeFlagBy(cmd, f.Name, values)
	})
}

// completeOne completes the first argument of a command as values does, and no other one.
func completeOne(values cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return values(cmd, args, typed)
	}
}

// completeSource completes the name of an appliance, and then one of its streams.
func (c *command) completeSource(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	config, err := c.load()
	switch {
	case err != nil || len(args) > 1:
		return nil, cobra.ShellCompDirectiveNoFileComp
	case len(args) == 0:
		return config.ApplianceNames(), cobra.ShellCompDirectiveNoFileComp
	}
	var streams []string
	for _, a := range config.Appliances {
		if a.Name == args[0] {
			streams = pipeline.StreamsOf(config, a)
		}
	}
	return streams, cobra.ShellCompDirectiveNoFileComp
}

// complete returns a function that completes the first argument of a command with names
// from the configuration. It makes no connections.
func (c *command) complete(names func(*configs.Config) []string) cobra.CompletionFunc {
	return completeOne(c.completeNames(names))
}

// completeNames returns a function that completes the value of a flag as complete does an
// argument.
func (c *command) completeNames(names func(*configs.Config) []string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		config, err := c.load()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names(config), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFlag completes the values of a flag with fixed words.
func (c *command) completeFlag(cmd *cobra.Command, flag string, words ...string) {
	completeFlagBy(cmd, flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// completeFiles returns a function that completes the names of files with these extensions,
// and of folders.
func completeFiles(extensions ...string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		if len(extensions) == 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return extensions, cobra.ShellCompDirectiveFilterFileExt
	}
}

// completeFlagBy completes the values of a flag with values. It panics if the command has
// no such flag.
func completeFlagBy(cmd *cobra.Command, flag string, values cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, values); err != nil {
		panic(err)
	}
}

func sinkNames(config *configs.Config) []string {
	var names []string
	for _, s := range config.Sinks {
		names = append(names, s.Name)
	}
	return names
}

// tailStreams returns the names of the streams whose events a bridge journals.
func tailStreams(config *configs.Config) []string {
	names := slices.Clone(streamNames)
	for _, a := range config.Appliances {
		for _, stream := range pipeline.StreamsOf(config, a) {
			if !slices.Contains(names, stream) {
				names = append(names, stream)
			}
		}
	}
	return names
}

// ownerNames returns the names of the sinks, and of the streams in the form
// appliance/stream, which can have dead letters.
func ownerNames(config *configs.Config) []string {
	names := sinkNames(config)
	for _, a := range config.Appliances {
		for _, stream := range pipeline.StreamsOf(config, a) {
			names = append(names, a.Name+"/"+stream)
		}
	}
	return names
}
