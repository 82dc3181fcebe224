package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
)

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
