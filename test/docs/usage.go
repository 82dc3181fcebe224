package docs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TryCommands fails the test where a document of the repository shows or mentions a
// command line that a program would not understand, and where none does either. root
// makes the program's command again; the test's package lies in cmd. Nothing is carried
// out; what a command finds wrong only while it runs is not found.
func TryCommands(t testing.TB, root func() *cobra.Command) {
	t.Helper()
	documents, err := Read("../..")
	if err != nil {
		t.Fatal(err)
	}
	tried, misuses := tryCommands(documents, root)
	if tried == 0 {
		t.Errorf("no document has a command line of %s", root().Name())
	}
	for _, misuse := range misuses {
		t.Error(misuse)
	}
}

// tryCommands returns how many command lines the documents have, and a text for each
// that is not understood.
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
