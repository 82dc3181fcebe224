package main

import (
	"strings"
	"testing"
	"time"

	"ndrbridge/test/require"
)

func TestTimesAreParsed(t *testing.T) {
	zone := time.FixedZone("UTC+2", 2*60*60)
	now := time.Date(2026, 3, 1, 10, 30, 0, 0, zone)
	for _, c := range []struct{ text, want string }{
		{"-2h", "2026-03-01T08:30:00+02:00"},
		{"2h", "2026-03-01T08:30:00+02:00"},
		{"2h ago", "2026-03-01T08:30:00+02:00"},
		{" 1d12h ago ", "2026-02-27T22:30:00+02:00"},
		{"1w", "2026-02-22T10:30:00+02:00"},
		{"today", "2026-03-01T00:00:00+02:00"},
		{"yesterday", "2026-02-28T00:00:00+02:00"},
		{"yesterday 18:30", "2026-02-28T18:30:00+02:00"},
		{"today 08:00:05", "2026-03-01T08:00:05+02:00"},
		{"2026-01-31", "2026-01-31T00:00:00+02:00"},
		{"2026-01-31 08:00", "2026-01-31T08:00:00+02:00"},
		{"2026-01-31 08:00:01", "2026-01-31T08:00:01+02:00"},
		{"2026-01-31T08:00", "2026-01-31T08:00:00+02:00"},
		{"2026-01-31T08:00:00Z", "2026-01-31T08:00:00Z"},
		{"2026-01-31T08:00:00.5-05:00", "2026-01-31T08:00:00.5-05:00"},
		{"2026-01-31 08:00:00Z", "2026-01-31T08:00:00Z"},
		{"beginning", "1970-01-01T00:00:00Z"},
	} {
		at, err := timeOf(c.text, now)
		want, _ := time.Parse(time.RFC3339Nano, c.want)
		if err != nil || !at.Equal(want) {
			t.Errorf("%q is %s (%v), want %s", c.text, at, err, c.want)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"", "is not a time in the past"},
		{"now", "is not a time in the past"},
		{"tomorrow", "is not a time in the past"},
		{"yesterday noon", "is not a time in the past"},
		{"2", "is not a time in the past"},
		{"--2h", "is not a time in the past"},
		{"-2h ago", "is not a time in the past"},
		{"0s", "is not a time in the past"},
		{"2026-02-30", "is not a time in the past"},
		{"31.01.2026", "2026-01-31 or"},
		{"today 11:00", "is in the future, because it is 2026-03-01T10:30:00+02:00 now"},
		{"2027-01-01", "is in the future"},
	} {
		if at, err := timeOf(c.text, now); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q is %s (%v), want an error with %q", c.text, at, err, c.want)
		}
	}
}

func TestADayOfTheClockChangeBeginsAtMidnight(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	at, err := timeOf("yesterday", time.Date(2026, 3, 30, 9, 0, 0, 0, zone))
	if want := time.Date(2026, 3, 29, 0, 0, 0, 0, zone); err != nil || !at.Equal(want) {
		t.Errorf("%s (%v), want %s", at, err, want)
	}
}

func FuzzTimeOf(f *testing.F) {
	for _, seed := range []string{"-2h", "2h ago", "yesterday 18:30", "2026-01-31", "2026-01-31T08:00:00Z", "beginning", "-", "ago", "today "} {
		f.Add(seed)
	}
	now := time.Date(2026, 3, 1, 10, 30, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		if at, err := timeOf(text, now); err == nil && at.After(now) {
			t.Errorf("%q is %s, in the future", text, at)
		}
	})
}
