package appliance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/require"

	"ndrbridge/test/assert"
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
	require.Equal(t, len(first), len(again), "versions, then")
	for i := range first {
		require.True(t, bytes.Equal(first[i].JSON, again[i].JSON), "version", i, string(first[i].JSON), "then", string(again[i].JSON))
	}
	assert.False(t, bytes.Equal(first[0].JSON, other[0].JSON), "two seeds, one life")
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
		assert.True(t, n != 0, name, "none")
	}
}

func TestEntriesAndRecordsComeAtTheirRates(t *testing.T) {
	at := epoch
	a := standin.New(standin.Options{Seed: 3, Now: func() time.Time { return at }})
	s := a.Simulate(standin.Rates{AuditEntries: 2, Records: 5, RecordsLate: 1, RecordLateBy: time.Minute, RecordsTie: 0.5, RecordTieSize: 7})
	for range 100 {
		at = at.Add(100 * time.Millisecond)
		s.Step(100 * time.Millisecond)
	}
	n := len(a.AuditHistory())
	assert.True(t, n >= 19 && n <= 20, n, "entries, where 20 are due")
	var late int
	ties := make(map[int64]int)
	for _, r := range a.RecordHistory() {
		switch behind := r.StoredAt - r.Micros/1000; {
		case behind < 0 || behind > 60_000:
			t.Errorf("record %s was stored %d ms behind its timestamp", r.ID, behind)
		case behind > 0:
			late++
		}
		ties[r.Micros]++
	}
	var tied int
	for _, n := range ties {
		if n >= 7 {
			tied++
		}
	}
	n = len(a.RecordHistory())
	assert.True(t, n >= 90 && n <= 95 && late >= 8 && tied >= 4, n, "records", late, "of them late, and", tied, "ties")
	assert.Equal(t, a.Len(), 0, "detections appeared")
}

func TestLiveEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := standin.New(standin.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		a.Live(ctx, standin.Rates{Appear: 10})
		n := a.Len()
		assert.True(t, n >= 18 && n <= 20, n, "detections appeared in two seconds")
	})
}

// It shows its worth under the race detector.
func TestEverythingAtOnce(t *testing.T) {
	a, c := serve(t, standin.Options{Now: time.Now, Size: 1000})
	a.SetHazards(standin.Hazards{ChangingLinks: true, CutJSON: 0.1, CursorRenews: true, RecordTiesShuffle: true})
	ctx, cancel := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	busy.Go(func() {
		a.Live(ctx, standin.Rates{
			Appear: 500, Update: 500, Edit: 100, Close: 100, Tie: 5, TieSize: 10,
			AuditEntries: 300, Records: 500, RecordsLate: 50, RecordsTie: 5, RecordTieSize: 10,
		})
	})
	for range 3 {
		busy.Go(func() {
			for range 30 {
				got, err := c.send("POST", "/api/v1/detections/search", `{"mod_time":"-1h"}`)
				assert.True(t, err == nil && got.status == http.StatusOK, got.status, err)
				for _, path := range []string{"/detections?limit=5", "/auditlog?limit=5", "/detections/formats"} {
					got, err := c.send("GET", "/api/v1"+path, "")
					assert.True(t, err == nil && got.status == http.StatusOK, path, got.status, err)
				}
				found, err := c.send("POST", "/api/v1/records/search", `{"from":"-1h","limit":5,"context_ttl":"1m"}`)
				var page recordAnswer
				if err != nil || found.status != http.StatusOK || json.Unmarshal([]byte(found.body), &page) != nil || page.Cursor == "" {
					continue // cut, or too few records yet
				}
				got, err = c.send("POST", "/api/v1/records/cursor", fmt.Sprintf(`{"cursor":%q}`, page.Cursor))
				assert.True(t, err == nil && got.status == http.StatusOK, got.status, err)
			}
		})
	}
	for i := range 50 {
		a.Hide(a.AddMany(1)[0].ID)
		a.SetSkew(time.Duration(i) * time.Second)
		a.Latest()
		a.AddAuditBody(i)
		a.AuditHistory()
		a.RecordHistory()
	}
	cancel()
	busy.Wait()
}
