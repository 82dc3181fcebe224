package docs

import (
	"slices"
	"testing"

	"ndrbridge/test/assert"

	"github.com/spf13/cobra"
)

func TestInvalidCommandLinesAreFound(t *testing.T) {
	root := func() *cobra.Command {
		root := &cobra.Command{Use: "prog"}
		group := &cobra.Command{Use: "state", Run: func(*cobra.Command, []string) {}}
		show := &cobra.Command{Use: "show", Args: cobra.ExactArgs(1), Run: func(*cobra.Command, []string) {}}
		show.Flags().Bool("json", false, "")
		group.AddCommand(show)
		root.AddCommand(group)
		return root
	}
	const text = "prog state show x --json\nprog state show\nprog state fly\nprog fly\nprog state show x --fly\n"
	d := Document{Path: "a.md", Blocks: []Block{{Language: "sh", Text: text}}, Spans: []string{"prog state show", "prog state show --all", "prog"}}
	want := []string{
		"a.md: prog state show: accepts 1 arg(s), received 0",
		`a.md: prog state fly: prog state has no command "fly"`,
		`a.md: prog fly: unknown command "fly" for "prog"`,
		"a.md: prog state show x --fly: unknown flag: --fly",
		"a.md: prog state show --all: unknown flag: --all",
	}
	tried, got := tryCommands([]Document{d}, root)
	assert.True(t, tried == 8 && slices.Equal(got, want), tried, "it finds", got)
}
