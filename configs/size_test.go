package configs

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestSizeText(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       Size
		again      string
	}{
		{"zero", "0", 0, "0"},
		{"bytes without a unit", "1000", 1000, "1000B"},
		{"bytes", "7B", 7, "7B"},
		{"kibibytes", "3KiB", 3 << 10, "3KiB"},
		{"mebibytes", "256MiB", 256 * MiB, "256MiB"},
		{"gibibytes", "2GiB", 2 << 30, "2GiB"},
		{"tebibytes", "1TiB", 1 << 40, "1TiB"},
		{"the largest unit without a rest", "1536MiB", 1536 * MiB, "1536MiB"},
		{"a larger unit where it fits", "2048KiB", 2 * MiB, "2MiB"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var s Size
			if err := s.UnmarshalText([]byte(test.text)); err != nil {
				t.Fatal(err)
			}
			if s != test.want || s.String() != test.again {
				t.Errorf("%q is %d, printed as %s; want %d, printed as %s", test.text, s, s, test.want, test.again)
			}
		})
	}
}

func TestSizeErrors(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":         "",
		"a unit alone":    "MiB",
		"less than none":  "-1",
		"decimal units":   "2GB",
		"short units":     "2Gi",
		"lower case":      "2gib",
		"a fraction":      "1.5GiB",
		"blanks":          "2 GiB",
		"more than fits":  "8388608TiB",
		"digits that end": "99999999999999999999",
	} {
		t.Run(name, func(t *testing.T) {
			s := Size(7)
			if err := s.UnmarshalText([]byte(text)); err == nil || s != 7 {
				t.Errorf("%q became %s, error %v", text, s, err)
			}
		})
	}
}

func TestSizeTextRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]Size{1, 1 << 10, MiB, 1 << 30, 1 << 40}).Draw(t, "unit")
		s := Size(rapid.Int64Range(0, math.MaxInt64/int64(unit)).Draw(t, "count")) * unit
		var again Size
		if err := again.UnmarshalText([]byte(s.String())); err != nil || again != s {
			t.Fatalf("%d is printed as %s, read as %d, error %v", s, s, again, err)
		}
	})
}

func FuzzSize(f *testing.F) {
	f.Add("2GiB")
	f.Fuzz(func(t *testing.T, text string) {
		var s, again Size
		if s.UnmarshalText([]byte(text)) != nil {
			return
		}
		if err := again.UnmarshalText([]byte(s.String())); err != nil || again != s || s < 0 {
			t.Fatalf("%q is %d, printed as %s, read as %d, error %v", text, s, s, again, err)
		}
	})
}
