package configs

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDurationText(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       time.Duration
		again      string // what String gives
	}{
		{"zero needs no unit", "0", 0, "0s"},
		{"Go's units", "1h2m3s", time.Hour + 2*time.Minute + 3*time.Second, "1h2m3s"},
		{"parts of a second", "1500us", 1500 * time.Microsecond, "1.5ms"},
		{"hours above a day", "36h", 36 * time.Hour, "1d12h"},
		{"days", "90d", 90 * 24 * time.Hour, "90d"},
		{"weeks and days", "1w2d", 9 * 24 * time.Hour, "9d"},
		{"half a day", "1.5d", 36 * time.Hour, "1d12h"},
		{"days and minutes", "2d30m", 48*time.Hour + 30*time.Minute, "2d30m"},
		{"hours and seconds", "1h5s", time.Hour + 5*time.Second, "1h0m5s"},
		{"a while ago", "-7d", -7 * 24 * time.Hour, "-7d"},
		{"a plus sign", "+5s", 5 * time.Second, "5s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var d Duration
			if err := d.UnmarshalText([]byte(test.text)); err != nil {
				t.Fatal(err)
			}
			if time.Duration(d) != test.want || d.String() != test.again {
				t.Errorf("%q is %v, printed as %s; want %v, printed as %s", test.text, time.Duration(d), d, test.want, test.again)
			}
		})
	}
}

func TestDurationErrors(t *testing.T) {
	for name, text := range map[string]string{
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
	} {
		t.Run(name, func(t *testing.T) {
			d := Duration(time.Second)
			if err := d.UnmarshalText([]byte(text)); err == nil || d != Duration(time.Second) {
				t.Errorf("%q became %s, error %v", text, d, err)
			}
		})
	}
}

func TestDurationTextRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Duration(rapid.Int64().Draw(t, "d"))
		var again Duration
		if err := again.UnmarshalText([]byte(d.String())); err != nil || again != d {
			t.Fatalf("%d is printed as %s, read as %d, error %v", d, d, again, err)
		}
	})
}

func FuzzDuration(f *testing.F) {
	f.Add("1w2d3h4m5.6s")
	f.Add("-9223372036854775808ns")
	f.Fuzz(func(t *testing.T, text string) {
		var d, again Duration
		if d.UnmarshalText([]byte(text)) != nil {
			return
		}
		if err := again.UnmarshalText([]byte(d.String())); err != nil || again != d {
			t.Fatalf("%q is %d, printed as %s, read as %d, error %v", text, d, d, again, err)
		}
	})
}
