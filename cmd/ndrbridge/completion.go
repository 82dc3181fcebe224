package main

import (
	"github.com/spf13/cobra"

	"ndrbridge/configs"
	"ndrbridge/pipeline"
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

// complete returns a function that completes the first argument of a command with names
// from the configuration. It makes no connections.
func (c *command) complete(names func(*configs.Config) []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		config, err := configs.Load(c.configFile, c.environ)
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names(config), cobra.ShellCompDirectiveNoFileComp
	}
}

func sinkNames(config *configs.Config) []string {
	var names []string
	for _, s := range config.Sinks {
		names = append(names, s.Name)
	}
	return names
}

func applianceNames(config *configs.Config) []string {
	var names []string
	for _, a := range config.Appliances {
		names = append(names, a.Name)
	}
	return names
}

// ownerNames returns the names of the sinks, and of the streams in the form
// appliance/stream, which can have dead letters.
func ownerNames(config *configs.Config) []string {
	names := sinkNames(config)
	for _, a := range config.Appliances {
		for _, stream := range pipeline.StreamsOf(a) {
			names = append(names, a.Name+"/"+stream)
		}
	}
	return names
}
