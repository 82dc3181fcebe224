package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/configs"
)

// exactly wants an argument for each name.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return fmt.Errorf("%w: %s takes %s, and %d arguments were given", commandline.ErrUsage, cmd.CommandPath(), strings.Join(names, " "), len(args))
		}
		return nil
	}
}

// atLeast wants an argument for each name, and lets more follow.
func atLeast(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return fmt.Errorf("%w: %s takes %s first, and %d arguments were given", commandline.ErrUsage, cmd.CommandPath(), strings.Join(names, " "), len(args))
		}
		return nil
	}
}

// parseTime reads a time on the command line: RFC 3339, a negative duration
// before now, or beginning, which is 1970.
func parseTime(flag, text string) (time.Time, error) {
	const advice = "write -7d, beginning, or a time such as 2026-01-31T08:00:00Z"
	if text == "" {
		return time.Time{}, fmt.Errorf("%w: --%s is missing: %s", commandline.ErrUsage, flag, advice)
	}
	var start configs.Start
	if err := start.UnmarshalText([]byte(text)); err != nil || start.IsNow() {
		return time.Time{}, fmt.Errorf("%w: --%s: %q is no time that is past: %s", commandline.ErrUsage, flag, text, advice)
	}
	if at := start.At(time.Now()); !at.IsZero() {
		return at, nil
	}
	return time.UnixMilli(0), nil
}
