package commandline

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ndrbridge/internal/similar"
)

// unknownCommand returns an ErrUsage for a command that root does not have, with the one
// that lists the name in SuggestFor, or is similar.
func unknownCommand(root *cobra.Command, name string) error {
	var names []string
	meant := ""
	for _, cmd := range root.Commands() {
		if slices.Contains(cmd.SuggestFor, name) {
			meant = cmd.Name()
		}
		names = append(names, cmd.Name())
	}
	text := fmt.Sprintf("%s has no command %q", root.Name(), name)
	if meant = cmp.Or(meant, similar.Nearest(name, names)); meant != "" {
		text += "; did you mean " + meant + "?"
	}
	return fmt.Errorf("%w: %s", ErrUsage, text)
}

// flagError returns an ErrUsage for an error of a flag, in words that need no knowledge of
// Go: with a similar flag, the form of the value, or examples of it.
func flagError(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if unknown.GetSpecifiedShortnames() != "" {
			return fmt.Errorf("%w: %s has no flag -%s", ErrUsage, cmd.CommandPath(), unknown.GetSpecifiedName())
		}
		name := unknown.GetSpecifiedName()
		text := fmt.Sprintf("%s has no flag --%s", cmd.CommandPath(), name)
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := similar.Nearest(name, names); near != "" {
			text += "; did you mean --" + near + "?"
		}
		return fmt.Errorf("%w: %s", ErrUsage, text)
	}
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		value, _ := pflag.UnquoteUsage(missing.GetFlag())
		return fmt.Errorf("%w: --%s requires a value: --%s %s", ErrUsage, missing.GetFlag().Name, missing.GetFlag().Name, strings.ToUpper(value))
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		expected := map[string]string{
			"bool": "true or false", "duration": "a duration: write for example 500ms, 30s or 5m", "int": "a whole number",
		}[invalid.GetFlag().Value.Type()]
		if expected != "" {
			return fmt.Errorf("%w: --%s: %q is not %s", ErrUsage, invalid.GetFlag().Name, invalid.GetValue(), expected)
		}
	}
	return fmt.Errorf("%w: %w", ErrUsage, err)
}

// dashAdvice returns a line of advice if one of args is a flag with one dash, which is read
// as several flags of one letter; otherwise "".
func dashAdvice(cmd *cobra.Command, args []string) string {
	for _, arg := range args {
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if len(name) > 1 && strings.HasPrefix(arg, "-") && cmd.Flags().Lookup(name) != nil {
			return fmt.Sprintf("Write --%s, with two dashes, instead of -%s.\n", name, name)
		}
	}
	return ""
}

// NoArgs returns an ErrUsage if there are arguments. It replaces cobra.NoArgs.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	advice := ""
	if extension := filepath.Ext(args[0]); cmd.Flags().Lookup("config") != nil && (extension == ".yaml" || extension == ".yml") {
		advice = "; write --config " + args[0]
	}
	return fmt.Errorf("%w: %s takes no arguments, got %q%s", ErrUsage, cmd.CommandPath(), args[0], advice)
}
