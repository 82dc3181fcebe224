package configs

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// hasText is a pointer to a value with a text form.
type hasText[T any] interface {
	*T
	UnmarshalText(text []byte) error
	String() string
}

// textOf is a text of a value, and the text that String returns.
type textOf[T any] struct {
	name, text string
	want       T
	again      string
}

// expectTexts checks what texts are read as, and that refused ones, by their names, change nothing.
func expectTexts[T comparable, P hasText[T]](t *testing.T, texts []textOf[T], refused map[string]string) {
	t.Helper()
	for _, test := range texts {
		t.Run(test.name, func(t *testing.T) {
			var v, again T
			require.NoError(t, P(&v).UnmarshalText([]byte(test.text)))
			assert.True(t, v == test.want && P(&v).String() == test.again, test.text, v, test.want, "printed as", test.again)
			err := P(&again).UnmarshalText([]byte(test.again))
			assert.True(t, err == nil && again == v, test.again, "is read as", again, err)
		})
	}
	for name, text := range refused {
		t.Run("refuses "+name, func(t *testing.T) {
			v := texts[1].want
			err := P(&v).UnmarshalText([]byte(text))
			assert.True(t, err != nil && v == texts[1].want, text, "became", v, err)
		})
	}
}

// roundTrip checks that a value is read as it is printed.
func roundTrip[T comparable, P hasText[T]](t interface{ Fatalf(string, ...any) }, v T) {
	var again T
	if err := P(&again).UnmarshalText([]byte(P(&v).String())); err != nil || again != v {
		t.Fatalf("%v is read as %v, error %v", v, again, err)
	}
}

func TestDurationText(t *testing.T) {
	expectTexts(t, []textOf[Duration]{
		{"zero needs no unit", "0", 0, "0s"},
		{"Go's units", "1h2m3s", Duration(time.Hour + 2*time.Minute + 3*time.Second), "1h2m3s"},
		{"parts of a second", "1500us", Duration(1500 * time.Microsecond), "1.5ms"},
		{"hours above a day", "36h", Duration(36 * time.Hour), "1d12h"},
		{"days", "90d", Duration(90 * 24 * time.Hour), "90d"},
		{"weeks and days", "1w2d", Duration(9 * 24 * time.Hour), "9d"},
		{"half a day", "1.5d", Duration(36 * time.Hour), "1d12h"},
		{"a part of a day that is no whole hour", "0.7d", Duration(16*time.Hour + 48*time.Minute), "16h48m"},
		{"days and minutes", "2d30m", Duration(48*time.Hour + 30*time.Minute), "2d30m"},
		{"hours and seconds", "1h5s", Duration(time.Hour + 5*time.Second), "1h0m5s"},
		{"a while ago", "-7d", Duration(-7 * 24 * time.Hour), "-7d"},
		{"a plus sign", "+5s", Duration(5 * time.Second), "5s"},
	}, map[string]string{
		"nothing":                    "",
		"a sign alone":               "-",
		"a number alone":             "20",
		"an unknown unit":            "5y",
		"a unit alone":               "d",
		"two dots":                   "1.2.3s",
		"a sign within":              "1h-5m",
		"blanks":                     "5 s",
		"more than fits":             "20000w",
		"more than fits, in a sum":   "15000w15000w",
		"more than fits, in seconds": "99999999999999s",
	})
}

func TestDurationTextRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { roundTrip(t, Duration(rapid.Int64().Draw(t, "d"))) })
}

func FuzzDuration(f *testing.F) {
	f.Add("1w2d3h4m5.6s")
	f.Add("-9223372036854775808ns")
	f.Fuzz(func(t *testing.T, text string) {
		var d Duration
		if d.UnmarshalText([]byte(text)) == nil {
			roundTrip(t, d)
		}
	})
}

func TestSizeText(t *testing.T) {
	expectTexts(t, []textOf[Size]{
		{"zero", "0", 0, "0"},
		{"bytes without a unit", "1000", 1000, "1000B"},
		{"bytes", "7B", 7, "7B"},
		{"kibibytes", "3KiB", 3 << 10, "3KiB"},
		{"mebibytes", "256MiB", 256 * MiB, "256MiB"},
		{"gibibytes", "2GiB", 2 << 30, "2GiB"},
		{"tebibytes", "1TiB", 1 << 40, "1TiB"},
		{"the largest unit without a rest", "1536MiB", 1536 * MiB, "1536MiB"},
		{"a larger unit where it fits", "2048KiB", 2 * MiB, "2MiB"},
	}, map[string]string{
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
	})
}

func TestSizeTextRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]Size{1, 1 << 10, MiB, 1 << 30, 1 << 40}).Draw(t, "unit")
		roundTrip(t, Size(rapid.Int64Range(0, math.MaxInt64/int64(unit)).Draw(t, "count"))*unit)
	})
}

func FuzzSize(f *testing.F) {
	f.Add("2GiB")
	f.Fuzz(func(t *testing.T, text string) {
		var s Size
		if s.UnmarshalText([]byte(text)) != nil {
			return
		}
		if roundTrip(t, s); s < 0 {
			t.Fatalf("%q is %d", text, s)
		}
	})
}

func TestStartText(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	expectTexts(t, []textOf[Start]{
		{"now", "now", Start{}, "now"},
		{"the beginning", "beginning", Start{"beginning"}, "beginning"},
		{"a while ago", "-1w", Start{"-1w"}, "-1w"},
		{"a while ago without a sign", "1w", Start{"1w"}, "1w"},
		{"a while ago in words", "2h ago", Start{"2h ago"}, "2h ago"},
		{"a day in words", "yesterday 18:30", Start{"yesterday 18:30"}, "yesterday 18:30"},
		{"a time", "2026-01-31T08:00:00Z", Start{"2026-01-31T08:00:00Z"}, "2026-01-31T08:00:00Z"},
		{"a time elsewhere", "2026-01-31T08:00:00.5+02:00", Start{"2026-01-31T08:00:00.5+02:00"}, "2026-01-31T08:00:00.5+02:00"},
		{"a day", "2026-01-31", Start{"2026-01-31"}, "2026-01-31"},
		{"a time without a zone", "2026-01-31T08:00:00", Start{"2026-01-31T08:00:00"}, "2026-01-31T08:00:00"},
	}, map[string]string{
		"nothing":        "",
		"no time at all": "0",
		"another word":   "tomorrow",
		"another order":  "31.01.2026",
		"the zero time":  "0001-01-01T00:00:00Z",
	})
	past := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	midnight := time.Date(2026, 1, 31, 0, 0, 0, 0, time.Local)
	for s, want := range map[Start]time.Time{{}: now, {"beginning"}: {}, {"1w ago"}: now.Add(-week), {"2026-01-31T08:00:00Z"}: past, {"2026-01-31"}: midnight} {
		got := s.At(now)
		assert.True(t, got.Equal(want) && s.IsNow() == want.Equal(now), s, got, want)
	}
}
