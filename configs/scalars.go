package configs

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
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
	parsed, err := time.ParseDuration(daysOrWeeks.ReplaceAllStringFunc(s, inGoUnits))
	number := trailingNumber.FindString(s)
	switch {
	case err == nil:
		*d = Duration(parsed)
		return nil
	case number != "":
		return fmt.Errorf("%q needs a unit: write %ss for seconds, or use ms, m, h, d or w", s, number)
	}
	return fmt.Errorf("%q is not a duration: write for example 500ms, 30s, 5m, 6h, 7d or 2w", s)
}

var (
	daysOrWeeks    = regexp.MustCompile(`[0-9.]+[dw]`)
	trailingNumber = regexp.MustCompile(`[0-9]+$`)
)

// inGoUnits returns a number of days or weeks in Go's units. It returns one that has none, or is
// too large, as it is, which Go does not parse.
func inGoUnits(part string) string {
	last := len(part) - 1
	times := day / time.Hour
	if part[last] == 'w' {
		times = week / time.Hour
	}
	hours, err := time.ParseDuration(part[:last] + "h")
	if err != nil || hours > math.MaxInt64/times {
		return part
	}
	return (hours * times).String()
}

// Size is a number of bytes, 0 or more. Its text form is a whole number and a unit, B, KiB,
// MiB, GiB or TiB; without a unit it is a number of bytes.
type Size int64

// MiB is the Size of 1,048,576 bytes.
const MiB Size = 1 << 20

type sizeUnit struct {
	name  string
	bytes Size
}

// sizeUnits begins with the largest. The last has no name: a number without a unit.
var sizeUnits = []sizeUnit{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", MiB}, {"KiB", 1 << 10}, {"B", 1}, {"", 1}}

// String returns s in the largest unit that gives a whole number. UnmarshalText parses the
// result.
func (s Size) String() string {
	if s == 0 {
		return "0"
	}
	i := slices.IndexFunc(sizeUnits, func(u sizeUnit) bool { return s%u.bytes == 0 })
	return fmt.Sprintf("%d%s", s/sizeUnits[i].bytes, sizeUnits[i].name)
}

// MarshalText returns String.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses the text form. It leaves s unchanged on an error.
func (s *Size) UnmarshalText(text []byte) error {
	t := string(text)
	unit := strings.TrimLeft(t, "0123456789")
	number := strings.TrimSuffix(t, unit)
	i := slices.IndexFunc(sizeUnits, func(u sizeUnit) bool { return u.name == unit })
	if number == "" || i < 0 {
		return fmt.Errorf("%q is not a size: write a whole number and B, KiB, MiB, GiB or TiB, for example 256MiB", t)
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || Size(n) > math.MaxInt64/sizeUnits[i].bytes {
		return fmt.Errorf("%q is too large a size", t)
	}
	*s = Size(n) * sizeUnits[i].bytes
	return nil
}

// Start is the point from which to read: now, or a time of TimeOf. The zero Start is now.
type Start struct {
	text string // empty: now
}

// IsNow reports whether s is now.
func (s Start) IsNow() bool { return s == Start{} }

// At returns the time of s relative to now. It returns the zero time for the beginning.
func (s Start) At(now time.Time) time.Time {
	switch at, _ := TimeOf(s.text, now.Local()); s.text {
	case "":
		return now
	case "beginning":
		return time.Time{}
	default:
		return at.UTC()
	}
}

// String returns the text form of s.
func (s Start) String() string { return cmp.Or(s.text, "now") }

// MarshalText returns String.
func (s Start) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses the text form. It leaves s unchanged on an error.
func (s *Start) UnmarshalText(text []byte) error {
	t := strings.TrimSpace(string(text))
	if t == "now" {
		*s = Start{}
		return nil
	}
	if at, known := TimeOf(t, time.Now()); !known || at.IsZero() {
		return fmt.Errorf("%q is not a valid start: write now, %s", text, TimeForms)
	}
	*s = Start{t}
	return nil
}
