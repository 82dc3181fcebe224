package terminal

import (
	"fmt"
	"time"
)

// Bytes formats a number of bytes for a person.
func Bytes(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, prefix := float64(n)/unit, 0
	for value >= unit && prefix < len("KMGTPE")-1 {
		value /= unit
		prefix++
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTPE"[prefix])
}

// Duration formats a duration for a person: in its largest unit and, for hours and
// days, the next smaller one.
func Duration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	}
}

// Ago formats how long ago a time was. It returns "-" for the zero time.
func Ago(at, now time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return Duration(now.Sub(at)) + " ago"
}

// Seconds formats a number of seconds for a person.
func Seconds(seconds float64) string {
	return Duration(time.Duration(seconds * float64(time.Second)))
}

// Rate formats a number of events per second for a person. It returns "-" if the
// number is not known.
func Rate(perSecond float64, known bool) string {
	switch {
	case !known:
		return "-"
	case perSecond == 0:
		return "0/s"
	case perSecond < 0.1:
		return "<0.1/s"
	case perSecond < 10:
		return fmt.Sprintf("%.1f/s", perSecond)
	}
	return fmt.Sprintf("%.0f/s", perSecond)
}

// Count formats a number of things, such as "1 event" and "2 events".
func Count[N int | int64 | uint64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
