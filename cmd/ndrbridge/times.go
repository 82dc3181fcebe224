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
		return time.Time{}, fmt.Errorf("%w: --%s is missing; %s", commandline.ErrUsage, flag, timeAdvice)
	}
	at, err := timeOf(text, time.Now())
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: --%s: %w", commandline.ErrUsage, flag, err)
	}
	return at, nil
}

const timeAdvice = `write -2h or "2h ago", today, yesterday, 2026-01-31 or "2026-01-31 08:00" (in the time zone of this machine), 2026-01-31T08:00:00Z, or beginning`

// timeOf returns the time that a text stands for at the time now, in the zone of now.
func timeOf(text string, now time.Time) (time.Time, error) {
	text = strings.TrimSpace(text)
	if text == "beginning" {
		return time.UnixMilli(0), nil
	}
	at, known := dayOf(text, now)
	if !known {
		at, known = agoOf(text, now)
	}
	if !known {
		at, known = dateOf(text, now.Location())
	}
	switch {
	case !known:
		return time.Time{}, fmt.Errorf("%q is not a time in the past; %s", text, timeAdvice)
	case at.After(now):
		return time.Time{}, fmt.Errorf("%q is in the future, because it is %s now; %s", text, now.Format(time.RFC3339), timeAdvice)
	}
	return at, nil
}

// dayOf parses today and yesterday, with or without a time of day.
func dayOf(text string, now time.Time) (time.Time, bool) {
	word, clock, _ := strings.Cut(text, " ")
	year, month, day := now.Date()
	switch word {
	case "today":
	case "yesterday":
		day--
	default:
		return time.Time{}, false
	}
	var at time.Time
	if clock = strings.TrimSpace(clock); clock != "" {
		var err error
		if at, err = time.Parse("15:04", clock); err != nil {
			if at, err = time.Parse("15:04:05", clock); err != nil {
				return time.Time{}, false
			}
		}
	}
	return time.Date(year, month, day, at.Hour(), at.Minute(), at.Second(), 0, now.Location()), true
}

// agoOf parses a duration before now.
func agoOf(text string, now time.Time) (time.Time, bool) {
	amount, ago := strings.CutSuffix(text, "ago")
	amount = strings.TrimSpace(amount)
	amount, negative := strings.CutPrefix(amount, "-")
	var d configs.Duration
	if amount == "" || amount[0] < '0' || amount[0] > '9' || ago && negative || d.UnmarshalText([]byte(amount)) != nil || d == 0 {
		return time.Time{}, false
	}
	return now.Add(-time.Duration(d)), true
}

// dateOf parses a date with or without a time, in a zone unless it names one.
func dateOf(text string, zone *time.Location) (time.Time, bool) {
	for _, layout := range []string{
		time.RFC3339, "2006-01-02 15:04:05Z07:00", time.DateOnly,
		"2006-01-02 15:04", time.DateTime, "2006-01-02T15:04", "2006-01-02T15:04:05",
	} {
		if at, err := time.ParseInLocation(layout, text, zone); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}
