package docs

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Misuses are the command lines of documents that a program would not understand, a
// text each. root makes the program's command anew. Nothing is carried out; what a
// command finds wrong only while it runs is not found.
func Misuses(documents []Document, root func() *cobra.Command) []string {
	name := root().Name()
	var misuses []string
	tell := func(d Document, args []string, err error) {
		if err != nil {
			misuses = append(misuses, fmt.Sprintf("%s: %s %s: %v", d.Path, name, strings.Join(args, " "), err))
		}
	}
	for _, d := range documents {
		for _, args := range d.Commands(name) {
			cmd, err := find(root(), args)
			if err == nil {
				err = cmd.ValidateArgs(cmd.Flags().Args())
			}
			tell(d, args, err)
		}
		for _, args := range d.Mentions(name) {
			_, err := find(root(), args)
			tell(d, args, err)
		}
	}
	return misuses
}

// find is the command of a line, its flags read.
func find(root *cobra.Command, args []string) (*cobra.Command, error) {
	cmd, rest, err := root.Find(args)
	if err != nil {
		return nil, err
	}
	cmd.InitDefaultHelpFlag()
	if err := cmd.ParseFlags(rest); err != nil {
		return nil, err
	}
	if cmd.HasSubCommands() && cmd.Flags().NArg() > 0 {
		return nil, fmt.Errorf("%s has no command %q", cmd.CommandPath(), cmd.Flags().Arg(0))
	}
	return cmd, nil
}
