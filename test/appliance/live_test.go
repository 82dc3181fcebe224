package appliance_test

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	standin "ndrbridge/test/appliance"
)

var everything = standin.Rates{
	Appear: 5, Update: 4, Close: 1, Edit: 1, Late: 1, Future: 0.5, Tie: 0.3, Neighbours: 0.1,
	TieSize: 20, NeighbourSize: 30,
}

func TestTheSeedDecidesALife(t *testing.T) {
	live := func(seed uint64) []*standin.Version {
		at := epoch
		a := standin.New(standin.Options{Seed: seed, Now: func() time.Time { return at }})
		s := a.Simulate(everything)
		for range 100 {
			at = at.Add(100 * time.Millisecond)
			s.Step(100 * time.Millisecond)
		}
		return a.History()
	}
	first, again, other := live(1), live(1), live(2)
	if len(first) != len(again) {
		t.Fatalf("%d versions, then %d", len(first), len(again))
	}
	for i := range first {
		if !bytes.Equal(first[i].JSON, again[i].JSON) {
			t.Fatalf("version %d is\n%s\nthen\n%s", i, first[i].JSON, again[i].JSON)
		}
	}
	if bytes.Equal(first[0].JSON, other[0].JSON) {
		t.Error("two seeds, one life")
	}
}

func TestALifeHoldsWhatTheRatesSay(t *testing.T) {
	at := epoch
	a := standin.New(standin.Options{Seed: 3, Now: func() time.Time { return at }})
	s := a.Simulate(everything)
	for range 300 {
		at = at.Add(100 * time.Millisecond)
		s.Step(100 * time.Millisecond)
	}
	var closed, edits, late, future int
	last := make(map[int64]*standin.Version)
	ties := make(map[int64]int)
	for _, v := range a.History() {
		ties[v.ModTime]++
		before := last[v.ID]
		switch {
		case before == nil && v.ModTime < epoch.UnixMilli():
			late++
		case before == nil && v.ModTime > at.UnixMilli():
			future++
		case before == nil:
		case v.ModTime == before.ModTime:
			edits++
		case v.Status == "closed" && before.Status != "closed":
			closed++
		}
		last[v.ID] = v
	}
	var bulk, neighbours int
	for at, n := range ties {
		if n >= 20 {
			bulk++
		}
		if n >= 30 && ties[at+1] >= 30 {
			neighbours++
		}
	}
	for name, n := range map[string]int{
		"closed": closed, "edits": edits, "late": late, "future": future, "bulk": bulk, "neighbours": neighbours,
	} {
		if n == 0 {
			t.Errorf("%s: none", name)
		}
	}
}

func TestLiveEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := standin.New(standin.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		a.Live(ctx, standin.Rates{Appear: 10})
		if n := a.Len(); n < 18 || n > 20 {
			t.Errorf("%d detections appeared in two seconds", n)
		}
	})
}

// It shows its worth under the race detector.
func TestEverythingAtOnce(t *testing.T) {
	a, c := serve(t, standin.Options{Now: time.Now, Size: 1000})
	a.SetHazards(standin.Hazards{ChangingLinks: true, CutJSON: 0.1})
	ctx, cancel := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	busy.Go(func() {
		a.Live(ctx, standin.Rates{Appear: 500, Update: 500, Edit: 100, Close: 100, Tie: 5, TieSize: 10})
	})
	for range 3 {
		busy.Go(func() {
			for range 30 {
				if got, err := c.send("POST", "/api/v1/detections/search", `{"mod_time":"-1h"}`); err != nil || got.status != http.StatusOK {
					t.Errorf("got %d, %v", got.status, err)
				}
				if got, err := c.send("GET", "/api/v1/detections?limit=5", ""); err != nil || got.status != http.StatusOK {
					t.Errorf("got %d, %v", got.status, err)
				}
			}
		})
	}
	for i := range 50 {
		a.Hide(a.AddMany(1)[0].ID)
		a.SetSkew(time.Duration(i) * time.Second)
		a.Latest()
	}
	cancel()
	busy.Wait()
}
