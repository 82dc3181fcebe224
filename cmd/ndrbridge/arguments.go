package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/configs"
)

// exactly requires one argument for each name.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return fmt.Errorf("%w: %s requires %s, got %s", commandline.ErrUsage, cmd.CommandPath(), strings.Join(names, " "), terminal.Count(len(args), "argument"))
		}
		return nil
	}
}

// atLeast requires one argument for each name and permits more.
func atLeast(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return fmt.Errorf("%w: %s requires at least %s, got %s", commandline.ErrUsage, cmd.CommandPath(), strings.Join(names, " "), terminal.Count(len(args), "argument"))
		}
		return nil
	}
}

// parseTime parses the value of a flag: a time in RFC 3339, a negative duration relative
// to now, or beginning, which is 1970.
func parseTime(flag, text string) (time.Time, error) {
	const advice = "write -7d, beginning, or a time such as 2026-01-31T08:00:00Z"
	if text == "" {
		return time.Time{}, fmt.Errorf("%w: --%s is missing; %s", commandline.ErrUsage, flag, advice)
	}
	var start configs.Start
	if err := start.UnmarshalText([]byte(text)); err != nil || start.IsNow() {
		return time.Time{}, fmt.Errorf("%w: --%s: %q is not a time in the past; %s", commandline.ErrUsage, flag, text, advice)
	}
	if at := start.At(time.Now()); !at.IsZero() {
		return at, nil
	}
	return time.UnixMilli(0), nil
}
