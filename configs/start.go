package configs

import (
	"fmt"
	"time"
)

// Start is the point from which to read: now, the beginning, a duration ago, or a time. The
// zero Start is now. Its text form is now, beginning, a negative duration such as -7d, or
// an RFC 3339 time.
type Start struct {
	beginning bool
	ago       Duration // below 0, or 0: not set
	at        time.Time
}

// IsNow reports whether s is now.
func (s Start) IsNow() bool { return s == Start{} }

// At returns the time of s relative to now. It returns the zero time for the beginning.
func (s Start) At(now time.Time) time.Time {
	switch {
	case s.beginning:
		return time.Time{}
	case s.ago != 0:
		return now.Add(time.Duration(s.ago))
	case !s.at.IsZero():
		return s.at
	}
	return now
}

// String returns the text form of s.
func (s Start) String() string {
	switch {
	case s.beginning:
		return "beginning"
	case s.ago != 0:
		return s.ago.String()
	case !s.at.IsZero():
		return s.at.Format(time.RFC3339Nano)
	}
	return "now"
}

// MarshalText returns String.
func (s Start) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses the text form. It leaves s unchanged on an error.
func (s *Start) UnmarshalText(text []byte) error {
	t := string(text)
	switch t {
	case "now":
		*s = Start{}
		return nil
	case "beginning":
		*s = Start{beginning: true}
		return nil
	}
	var ago Duration
	if err := ago.UnmarshalText(text); err == nil {
		if ago >= 0 {
			return fmt.Errorf("%q is not in the past: write -%s for that long ago", t, ago)
		}
		*s = Start{ago: ago}
		return nil
	}
	at, err := time.Parse(time.RFC3339, t)
	if err != nil || at.IsZero() {
		return fmt.Errorf("%q is not a valid start: write now, beginning, a negative duration such as -7d, or a time such as 2026-01-31T08:00:00Z", t)
	}
	*s = Start{at: at.UTC()}
	return nil
}
