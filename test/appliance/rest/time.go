package rest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ParseTime parses a time in a request and returns milliseconds since the epoch. A positive
// number is that, 0 is now, and a negative one is relative to now, in milliseconds or in the
// unit of a suffix.
func ParseTime(raw json.RawMessage, now time.Time) (int64, error) {
	text := string(raw)
	if bytes.HasPrefix(raw, []byte(`"`)) {
		if err := json.Unmarshal(raw, &text); err != nil {
			return 0, fmt.Errorf("%s is not a time", raw)
		}
	}
	digits := strings.TrimRight(text, "msdhwMy")
	number, suffix := digits, text[len(digits):]
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		// A whole number may be written with a decimal point or an exponent.
		f, err := strconv.ParseFloat(number, 64)
		if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			return 0, fmt.Errorf("%s is not a time", raw)
		}
		n = int64(f)
	}
	switch {
	case n > 0 && suffix == "":
		return n, nil
	case n > 0:
		return 0, fmt.Errorf("%s: a unit is for negative times", raw)
	case n == 0:
		return now.UnixMilli(), nil
	}
	at, err := ago(n, suffix, now)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", raw, err)
	}
	return at, nil
}

// ago adds a negative number of units to now. Months and years are calendar ones.
func ago(n int64, unit string, now time.Time) (int64, error) {
	const longest = 1 << 53 // in any unit of fixed length
	var length time.Duration
	switch unit {
	case "", "ms":
		length = time.Millisecond
	case "s":
		length = time.Second
	case "m":
		length = time.Minute
	case "h":
		length = time.Hour
	case "d":
		length = 24 * time.Hour
	case "w":
		length = 7 * 24 * time.Hour
	case "M", "y":
		if n < -100_000 {
			return 0, fmt.Errorf("too long ago")
		}
		if unit == "M" {
			return now.UTC().AddDate(0, int(n), 0).UnixMilli(), nil
		}
		return now.UTC().AddDate(int(n), 0, 0).UnixMilli(), nil
	default:
		return 0, fmt.Errorf("unknown unit %q", unit)
	}
	if n < -longest/length.Milliseconds() {
		return 0, fmt.Errorf("too long ago")
	}
	return now.UnixMilli() + n*length.Milliseconds(), nil
}
