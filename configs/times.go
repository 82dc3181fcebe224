package configs

import (
	"strings"
	"time"
)

// TimeForms lists the forms of times, for messages.
const TimeForms = `-2h or "2h ago", today, yesterday, 2026-01-31 or "2026-01-31 08:00" (in the time zone of this machine), 2026-01-31T08:00:00Z, or beginning`

// TimeOf returns the time that a text stands for at the time now, in the zone of now, and
// whether it stands for one; see TimeForms. The beginning is 1970. It is the grammar of times in
// the configuration and in the flags of commands.
func TimeOf(text string, now time.Time) (at time.Time, known bool) {
	text = strings.TrimSpace(text)
	if text == "beginning" {
		return time.UnixMilli(0), true
	}
	if at, known = dayOf(text, now); !known {
		at, known = agoOf(text, now)
	}
	if !known {
		at, known = dateOf(text, now.Location())
	}
	return at, known
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
	var d Duration
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
