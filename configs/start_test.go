package configs

import (
	"testing"
	"time"
)

func TestStartText(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name, text, again string
		want              time.Time
	}{
		{"now", "now", "now", now},
		{"the beginning is the zero time", "beginning", "beginning", time.Time{}},
		{"a while ago", "-1w", "-7d", now.Add(-7 * 24 * time.Hour)},
		{"a time", "2026-01-31T08:00:00Z", "2026-01-31T08:00:00Z", time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)},
		{"a time elsewhere", "2026-01-31T08:00:00.5+02:00", "2026-01-31T06:00:00.5Z", time.Date(2026, 1, 31, 6, 0, 0, 5e8, time.UTC)},
	} {
		t.Run(test.name, func(t *testing.T) {
			var s, again Start
			if err := s.UnmarshalText([]byte(test.text)); err != nil {
				t.Fatal(err)
			}
			if !s.At(now).Equal(test.want) || s.String() != test.again || s.IsNow() != (test.text == "now") {
				t.Errorf("%q is %v, printed as %s; want %v, printed as %s", test.text, s.At(now), s, test.want, test.again)
			}
			if err := again.UnmarshalText([]byte(s.String())); err != nil || again != s {
				t.Errorf("%s is read as %s, error %v", s, again, err)
			}
		})
	}
	for name, text := range map[string]string{
		"nothing":               "",
		"a time to come":        "7d",
		"no time at all":        "0",
		"another word":          "yesterday",
		"a day":                 "2026-01-31",
		"a time without a zone": "2026-01-31T08:00:00",
		"the zero time":         "0001-01-01T00:00:00Z",
	} {
		t.Run("refuses "+name, func(t *testing.T) {
			var s Start
			if err := s.UnmarshalText([]byte(text)); err == nil {
				t.Errorf("%q became %s", text, s)
			}
		})
	}
}
