package main

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestFlagsAndArgumentsAreCompleted fails for a flag or an argument that a shell would
// complete with the names of files although it is none. A flag is exempt only if it is one
// of freeValues.
func TestFlagsAndArgumentsAreCompleted(t *testing.T) {
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, child := range cmd.Commands() {
			if child.Name() != "completion" && child.Name() != "help" { // cobra's own
				walk(child)
			}
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "bool" {
				return
			}
			if _, known := cmd.GetFlagCompletionFunc(f.Name); !known {
				t.Errorf("%s: the values of --%s are not completed", cmd.CommandPath(), f.Name)
			}
		})
		if cmd.ValidArgsFunction == nil {
			t.Errorf("%s: its arguments are not completed", cmd.Use)
		}
	}
	walk((&command{}).root())
}
