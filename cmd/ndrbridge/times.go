package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/configs"
)

// timeForms are examples of the times that parseTime accepts, for the help of flags.
const timeForms = `-2h, yesterday, 2026-01-31, "2026-01-31 08:00" or beginning`

// helpOfTimes is a paragraph in the help of commands with a flag for a time.
const helpOfTimes = `A time is -2h, 2h or "2h ago", with the units s, m, h, d and w; today or yesterday, with or
without a time of day ("yesterday 18:30"); 2026-01-31 or "2026-01-31 08:00", in the time zone
of this machine (TZ); 2026-01-31T08:00:00Z, with the zone that it names; or beginning.`

// withTime adds a flag for a time to a command.
func (c *command) withTime(cmd *cobra.Command, value *string, flag, usage string) {
	if !strings.Contains(cmd.Long, helpOfTimes) {
		cmd.Long = strings.Replace(cmd.Long, "\n\n"+helpOfControl, "\n\n"+helpOfTimes+"\n\n"+helpOfControl, 1)
	}
	cmd.Flags().StringVar(value, flag, "", usage+": "+timeForms)
	c.completeFlag(cmd, flag, "today", "yesterday", "beginning", "-1h", "-1d", "-7d")
}

// parseTime parses the value of a flag; see helpOfTimes. The beginning is 1970. The error
// is an ErrUsage that lists the forms.
func parseTime(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, fmt.Errorf("%w: --%s is missing; write %s", commandline.ErrUsage, flag, configs.TimeForms)
	}
	at, err := timeOf(text, time.Now())
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: --%s: %w", commandline.ErrUsage, flag, err)
	}
	return at, nil
}

// timeOf returns the time that a text stands for at the time now, in the zone of now.
func timeOf(text string, now time.Time) (time.Time, error) {
	at, known := configs.TimeOf(text, now)
	switch {
	case !known:
		return time.Time{}, fmt.Errorf("%q is not a time in the past; write %s", text, configs.TimeForms)
	case at.After(now):
		return time.Time{}, fmt.Errorf("%q is in the future, because it is %s now; write %s", text, now.Format(time.RFC3339), configs.TimeForms)
	}
	return at, nil
}
