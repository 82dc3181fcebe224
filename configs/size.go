package configs

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes, 0 or more. Its text form is a whole number and a unit, B, KiB,
// MiB, GiB or TiB; without a unit it is a number of bytes.
type Size int64

// Units of Size.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
	TiB Size = 1 << 40
)

// String returns s in the largest unit that gives a whole number. UnmarshalText parses the
// result.
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

// MarshalText returns String.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses the text form. It leaves s unchanged on an error.
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
