package sinks_test

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/sinks"
	"ndrbridge/transform"
)

func TestASinkIsSentWhatItWants(t *testing.T) {
	some := []string{"1", "5", "12"}
	wants := func(e transform.Event) (bool, error) { return slices.Contains(some, e.ID), nil }
	for _, c := range []struct {
		name  string
		match func(transform.Event) (bool, error)
		taken []string
		told  int // lines of the log that tell of a failure
	}{
		{"what it does not want is settled without being sent", wants, some, 0},
		{"and goes by where it wants nothing", func(transform.Event) (bool, error) { return false, nil }, nil, 0},
		{
			"what cannot be decided is sent, and told once",
			func(e transform.Event) (bool, error) {
				if e.ID == "2" || e.ID == "4" {
					return true, errors.New("no such overload")
				}
				return wants(e)
			},
			[]string{"1", "2", "4", "5", "12"}, 1,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				f := newFixtureWith(t, 12, &target{answer: func(int, []string) error { return nil }}, func(o *sinks.Options) {
					o.Match, o.Log = c.match, slog.New(slog.NewTextHandler(&log, nil))
				})
				stop := f.start()
				time.Sleep(time.Minute)
				if _, err := f.store.Replay(t.Context(), "lake", time.Time{}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				stop()
				want := slices.Clone(c.taken)
				for _, id := range c.taken {
					want = append(want, id+" again 1")
				}
				if !slices.Equal(f.taken, want) {
					t.Errorf("taken %v, want %v", f.taken, want)
				}
				if f.cursor(t) != 12 || f.dead(t) != nil {
					t.Errorf("cursor %d, dead letters %v", f.cursor(t), f.dead(t))
				}
				if told := strings.Count(log.String(), "no such overload"); told != c.told {
					t.Errorf("told %d times, want %d: %s", told, c.told, &log)
				}
			})
		})
	}
}
