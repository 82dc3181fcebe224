package configs

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const (
	day  = 24 * time.Hour
	week = 7 * day
)

// Duration is a time.Duration whose text form supports the units d (24 hours) and w (7
// days) in addition to Go's units: 90d, 1w2d, 36h, 1.5d.
type Duration time.Duration

// String returns d in days and Go's units. UnmarshalText parses the result.
func (d Duration) String() string {
	if d == 0 {
		return "0s"
	}
	var b strings.Builder
	magnitude := uint64(d)
	if d < 0 {
		b.WriteByte('-')
		magnitude = -magnitude
	}
	if days := magnitude / uint64(day); days > 0 {
		b.WriteString(strconv.FormatUint(days, 10) + "d")
	}
	if rest := time.Duration(magnitude % uint64(day)); rest > 0 {
		text := rest.String()
		if strings.HasSuffix(text, "m0s") {
			text = strings.TrimSuffix(text, "0s")
		}
		if strings.HasSuffix(text, "h0m") {
			text = strings.TrimSuffix(text, "0m")
		}
		b.WriteString(text)
	}
	return b.String()
}

// MarshalText returns String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText parses a sequence of numbers with units and an optional sign in front; 0
// needs no unit. It leaves d unchanged on an error.
func (d *Duration) UnmarshalText(text []byte) error {
	s := string(text)
	rest, negative := strings.CutPrefix(s, "-")
	if !negative {
		rest = strings.TrimPrefix(rest, "+")
	}
	if rest == "0" {
		*d = 0
		return nil
	}
	if rest == "" {
		return badDuration(s)
	}
	// The sum is negative, because the range of an int64 is larger by one below zero.
	var sum time.Duration
	for rest != "" {
		number := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789."))]
		rest = rest[len(number):]
		unit := rest
		if i := strings.IndexAny(rest, "0123456789."); i >= 0 {
			unit = rest[:i]
		}
		rest = rest[len(unit):]
		if number != "" && unit == "" {
			return fmt.Errorf("%q needs a unit: write %ss for seconds, or use ms, m, h, d or w", s, number)
		}
		part, err := negativePart(number, unit)
		if err != nil {
			return badDuration(s)
		}
		if sum < math.MinInt64-part {
			return fmt.Errorf("%q is longer than 292 years", s)
		}
		sum += part
	}
	if !negative {
		if sum == math.MinInt64 {
			return fmt.Errorf("%q is longer than 292 years", s)
		}
		sum = -sum
	}
	*d = Duration(sum)
	return nil
}

func negativePart(number, unit string) (time.Duration, error) {
	times := time.Duration(1)
	switch unit {
	case "d":
		unit, times = "h", day/time.Hour
	case "w":
		unit, times = "h", week/time.Hour
	}
	part, err := time.ParseDuration("-" + number + unit)
	if err != nil {
		return 0, err
	}
	if part < math.MinInt64/times {
		return 0, errors.New("too long")
	}
	return part * times, nil
}

func badDuration(s string) error {
	return fmt.Errorf("%q is not a duration: write for example 500ms, 30s, 5m, 6h, 7d or 2w", s)
}
