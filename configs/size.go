package configs

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes, 0 or more. Its text is a whole number and a unit:
// B, KiB, MiB, GiB or TiB; without a unit it counts bytes.
type Size int64

// The units of Size.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
	TiB Size = 1 << 40
)

// String gives the text that UnmarshalText reads back, in the largest unit that
// leaves no rest.
func (s Size) String() string {
	switch {
	case s == 0:
		return "0"
	case s%TiB == 0:
		return strconv.FormatInt(int64(s/TiB), 10) + "TiB"
	case s%GiB == 0:
		return strconv.FormatInt(int64(s/GiB), 10) + "GiB"
	case s%MiB == 0:
		return strconv.FormatInt(int64(s/MiB), 10) + "MiB"
	case s%KiB == 0:
		return strconv.FormatInt(int64(s/KiB), 10) + "KiB"
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// MarshalText is String.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what String gives. s is left alone on an error.
func (s *Size) UnmarshalText(text []byte) error {
	t := string(text)
	unit := strings.TrimLeft(t, "0123456789")
	number := strings.TrimSuffix(t, unit)
	var times Size
	switch unit {
	case "", "B":
		times = 1
	case "KiB":
		times = KiB
	case "MiB":
		times = MiB
	case "GiB":
		times = GiB
	case "TiB":
		times = TiB
	}
	if number == "" || times == 0 {
		return fmt.Errorf("%q is not a size: write a whole number and B, KiB, MiB, GiB or TiB, for example 256MiB", t)
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || Size(n) > math.MaxInt64/times {
		return fmt.Errorf("%q is too large a size", t)
	}
	*s = Size(n) * times
	return nil
}
