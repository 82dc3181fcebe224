package poller_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/internal/appliance"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/ledger"
	"ndrbridge/test/require"
	"ndrbridge/test/slowtest"
)

// serving is a world that polls the stand-in appliance through the client that the bridge
// uses.
type serving struct {
	*world
	standin *standin.Appliance
	now     time.Time
	skew    time.Duration
	huge    map[int64]bool // too large to be read
	network string         // the fault between the two: "", reset, cut, slow
	changes int            // in the current poll
}

// RoundTrip serves a request without a network, and does what a network does.
func (s *serving) RoundTrip(r *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	s.standin.ServeHTTP(recorder, r)
	answer := recorder.Result()
	switch s.network {
	case "reset":
		return nil, syscall.ECONNRESET
	case "cut":
		answer.Body = io.NopCloser(io.MultiReader(io.LimitReader(answer.Body, int64(recorder.Body.Len()/2)), iotest.ErrReader(io.ErrUnexpectedEOF)))
	case "slow":
		s.now = s.now.Add(10 * time.Second)
	}
	return answer, nil
}

func newServing(t *rapid.T) *serving {
	s := &serving{world: newWorld(t), now: time.UnixMilli(1_750_000_000_123), huge: make(map[int64]bool)}
	s.standin = standin.New(standin.Options{Seed: rapid.Uint64().Draw(t, "seed"), Size: 1000, Now: func() time.Time { return s.now }})
	client, err := appliance.New(appliance.Options{
		URL: "http://sensor.example", Key: func() (string, error) { return standin.DefaultAPIKey, nil },
		Transport: s, MaxAnswer: 64 << 10, Now: func() time.Time { return s.now },
	})
	require.NoError(t, err)
	s.options.PageSize = rapid.IntRange(4, 20).Draw(t, "page size")
	s.client = client
	s.time = func() int64 { return s.standin.Clock().UnixMilli() }
	s.restart()
	return s
}

// change lets something happen to the appliance, and sometimes much.
func (s *serving) change(t *rapid.T) {
	// An appliance that changes without end never ends a walk.
	if s.changes++; s.changes > 20 {
		return
	}
	visible := s.standin.Latest()
	some := func() []int64 {
		var ids []int64
		for _, v := range visible {
			if rapid.IntRange(0, 3).Draw(t, "this one") == 0 {
				ids = append(ids, v.ID)
			}
		}
		return ids
	}
	retitle := func(d *standin.Detection) { d.Title += "." }
	switch rapid.SampledFrom([]string{
		"nothing", "nothing", "appear", "appear", "tie", "neighbours", "update", "update", "edit", "late", "very late", "future",
		"huge", "not UTF-8", "tick", "tick", "hide", "forward", "back", "hazards", "hazards", "network",
	}).Draw(t, "change") {
	case "appear":
		s.standin.AddMany(rapid.IntRange(1, 3).Draw(t, "n"))
	case "tie":
		s.standin.AddTied(rapid.IntRange(2, 25).Draw(t, "n"), 0)
	case "neighbours":
		at := s.standin.Clock().UnixMilli()
		s.standin.AddTied(s.options.PageSize-1, at)
		s.standin.AddTied(s.options.PageSize-1, at+1)
	case "update":
		s.now = s.now.Add(time.Millisecond) // a version has a millisecond of its own, unless it is an edit
		s.must(s.standin.Update(retitle, some()...))
	case "edit":
		s.must(s.standin.Edit(retitle, some()...))
	case "late":
		s.standin.AddLate(time.Duration(rapid.Int64Range(0, int64(2*time.Minute)).Draw(t, "by")))
	case "very late":
		s.standin.AddLate(time.Duration(rapid.Int64Range(int64(2*time.Minute), int64(30*time.Hour)).Draw(t, "by")))
	case "future":
		s.standin.AddFuture(time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "by")))
	case "huge":
		s.huge[s.standin.AddHuge(80<<10).ID] = true
	case "not UTF-8":
		s.standin.AddInvalidUTF8()
	case "tick":
		s.now = s.now.Add(time.Duration(rapid.Int64Range(0, int64(5*time.Minute)).Draw(t, "for")))
	case "hide":
		s.standin.Hide(some()...)
	case "forward":
		s.skew += 17 * time.Minute
		s.standin.SetSkew(s.skew)
	case "back":
		s.skew -= 17 * time.Minute
		s.standin.SetSkew(s.skew)
	case "network":
		s.network = rapid.SampledFrom([]string{"", "", "reset", "cut", "slow"}).Draw(t, "network")
	case "hazards":
		seldom := func(name string) float64 { return rapid.SampledFrom([]float64{0, 0, 0, 0.2}).Draw(t, name) }
		s.standin.SetHazards(standin.Hazards{
			TooManyRequests: seldom("429"), ServerError: seldom("5xx"), HTML: seldom("html"), CutJSON: seldom("cut"),
			RetryAfter: time.Second, RetryAfterDate: rapid.Bool().Draw(t, "as a date"),
			Refusal:        rapid.SampledFrom([]standin.Refusal{0, 0, 0, 0, standin.RefusedJSON, standin.RefusedText, standin.RefusedForbidden}).Draw(t, "key"),
			WrongDate:      rapid.SampledFrom([]float64{0, 0, 0.2}).Draw(t, "wrong date"),
			LimitCap:       rapid.SampledFrom([]int{0, 0, 2, 7}).Draw(t, "cap"),
			LimitRefused:   rapid.SampledFrom([]int{0, 0, 2, 10}).Draw(t, "refused"),
			InclusiveBound: rapid.Bool().Draw(t, "inclusive"), ShuffledTies: rapid.Bool().Draw(t, "shuffled"),
		})
	}
}

func (s *serving) must(err error) {
	if err != nil {
		s.Fatalf("%v", err)
	}
}

// shown is what the appliance showed, apart from what no event can hold, as the
// client repairs it.
func (s *serving) shown() []ledger.Version {
	gone := make(map[int64]bool)
	for _, v := range s.standin.History() {
		gone[v.ID] = true
	}
	for _, v := range s.standin.Latest() {
		gone[v.ID] = s.huge[v.ID]
	}
	var all []ledger.Version
	for _, v := range s.standin.History() {
		if !s.huge[v.ID] {
			all = append(all, ledger.Version{ID: v.ID, ModTime: v.ModTime, Object: strings.ToValidUTF8(string(v.JSON), "\uFFFD"), Gone: gone[v.ID]})
		}
	}
	return all
}

func TestNothingIsLostBetweenTheClientAndTheStandIn(t *testing.T) {
	slowtest.Checks(t, 30)
	rapid.Check(t, func(t *rapid.T) {
		s := newServing(t)
		s.mustPoll() // the first contact
		s.now = s.now.Add(100 * time.Hour)
		s.standin.OnRequest(func(*http.Request) { s.change(t) })
		for range rapid.IntRange(2, 6).Draw(t, "polls") {
			if rapid.IntRange(0, 9).Draw(t, "crash") == 0 {
				s.restart()
			}
			s.changes = 0
			_ = s.poll() // failures are retried
		}
		s.standin.OnRequest(nil)
		s.network = ""
		s.standin.SetHazards(standin.Hazards{InclusiveBound: rapid.Bool().Draw(t, "inclusive")})
		s.now = s.now.Add(s.options.ReconcileEvery + 10*time.Hour) // it may have gone back unseen
		s.polls()                                                  // a sweep reads everything
		s.now = s.now.Add(s.options.ReconcileEvery)
		s.polls()
		verdict := s.ledger.Judge("journal", s.shown())
		require.True(t, len(verdict.Faults) == 0 && verdict.Duplicates <= 0, verdict.Duplicates, "duplicates, faults", verdict.Faults)
		for _, v := range s.standin.Latest() {
			_, dead := s.state.dead[fmt.Sprintf("%d-%d", v.ID, v.ModTime)]
			require.Equal(t, dead, s.huge[v.ID], "detection", v.ID, "is too large", "among the dead letters")
		}
	})
}
