package docs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"ndrbridge/test/require"
)

// TryCommands fails the test if a document of the repository contains a command line that a
// program does not accept, or if no document contains one. root returns a new instance of
// the program's command; the test's package must be in cmd. Commands are parsed but not run,
// so errors that occur only while they run are not found.
func TryCommands(t testing.TB, root func() *cobra.Command) {
	t.Helper()
	documents, err := Read("../..")
	require.NoError(t, err)
	tried, misuses := tryCommands(documents, root)
	if tried == 0 {
		t.Errorf("no document has a command line of %s", root().Name())
	}
	for _, misuse := range misuses {
		t.Error(misuse)
	}
}

// tryCommands returns the number of command lines in the documents, and a text for each that
// is not accepted.
func tryCommands(documents []Document, root func() *cobra.Command) (tried int, misuses []string) {
	name := root().Name()
	report := func(d Document, args []string, err error) {
		tried++
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
			report(d, args, err)
		}
		for _, args := range d.Mentions(name) {
			_, err := find(root(), args)
			report(d, args, err)
		}
	}
	return tried, misuses
}

// find returns the command of a line, with its flags parsed.
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
