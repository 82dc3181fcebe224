package appliance_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// records asks without a network for what a search or a cursor gives.
func records(t *rapid.T, a *standin.Appliance, path string, body any) recordAnswer {
	b := require.Value(json.Marshal(body))(t)
	r := httptest.NewRequest("POST", "/api/v1/records/"+path, strings.NewReader(string(b)))
	r.Header.Set("Authorization", "Service apikey="+standin.DefaultAPIKey)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	var got recordAnswer
	err := json.Unmarshal(w.Body.Bytes(), &got)
	require.True(t, err == nil && w.Code == 200, path, string(b), w.Code, err, w.Body)
	return got
}

func TestPagesOfRecordsJoinToWhatIsThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := standin.New(standin.Options{Seed: rapid.Uint64().Draw(t, "seed"), Now: still})
		const span = 40 // microseconds in which everything lies, so that there are ties
		first := epoch.UnixMicro() - span
		store := func(name string) {
			for range rapid.IntRange(0, 30).Draw(t, name) {
				a.AddRecordsAt(rapid.IntRange(1, 3).Draw(t, "tied"), first+rapid.Int64Range(0, span).Draw(t, "at"))
			}
		}
		store("stored")
		require.NoError(t, a.AddRecordBacklog(rapid.IntRange(0, 40).Draw(t, "backlog"), time.Duration(rapid.IntRange(0, span).Draw(t, "over"))*time.Microsecond))
		a.SetHazards(standin.Hazards{
			RecordTiesShuffle: rapid.Bool().Draw(t, "shuffled"),
			CursorRenews:      rapid.Bool().Draw(t, "renewing"),
			RecordBatch:       rapid.IntRange(0, 5).Draw(t, "batch"),
		})
		types := rapid.SampledFrom([][]string{{}, {"~dns"}, {"~http", "~flow"}}).Draw(t, "types")
		direction := rapid.SampledFrom([]string{"asc", "desc"}).Draw(t, "direction")
		offset, limit := rapid.IntRange(0, 60).Draw(t, "offset"), rapid.IntRange(1, 20).Draw(t, "limit")
		search := func(limit, offset int) map[string]any {
			return map[string]any{
				"from": "-2m", "types": types, "limit": limit, "offset": offset,
				"sort": []any{map[string]string{"field": "timestamp", "direction": direction}},
			}
		}

		whole := records(t, a, "search", search(10_000, 0))
		all := whole.ids()
		require.Equal(t, *whole.Total, len(all), "ids, of", "records")
		require.Equal(t, len(slices.Compact(slices.Sorted(slices.Values(all)))), len(all), "ids, of")
		if !slices.IsSortedFunc(whole.stamps(), func(x, y string) int {
			if direction == "desc" {
				x, y = y, x
			}
			return cmp.Compare(x, y)
		}) {
			t.Fatalf("not in order: %v", whole.stamps())
		}
		for _, r := range whole.Records {
			require.True(t, len(types) == 0 || slices.Contains(types, r.Type), r.ID, "is a", r.Type)
		}

		begun := search(limit, offset)
		begun["context_ttl"] = 60_000
		page := records(t, a, "search", begun)
		store("stored after the search")
		followed, stamps := page.ids(), page.stamps()
		for cursor := page.Cursor; cursor != "" && len(page.Records) > 0; {
			page = records(t, a, "cursor", map[string]string{"cursor": cursor})
			require.Equal(t, *page.Total, len(all), "a total of", "then")
			require.True(t, len(followed) <= len(all), "cursors lead to more than", len(all), "records")
			followed, stamps = append(followed, page.ids()...), append(stamps, page.stamps()...)
			cursor = cmp.Or(page.Cursor, cursor)
		}
		want := whole.stamps()[min(offset, len(all)):]
		require.True(t, slices.Equal(stamps, want), "cursors lead to", stamps, want)
		if a.Hazards().RecordTiesShuffle {
			return // what an offset leaves out is another half of a tie each time
		}
		want = all[min(offset, len(all)):]
		require.True(t, slices.Equal(followed, want), "cursors lead to", followed, want)
	})
}

func TestPagesOfRecordsByOffsetJoinWhereNothingIsShuffled(t *testing.T) {
	a, c := serve(t, standin.Options{ThirdPartyRecords: true})
	a.AddRecordsAt(30, (epoch.UnixMilli()-60_000)*1000)
	require.NoError(t, a.AddRecordBacklog(200, 2*time.Minute))
	for _, direction := range []string{"asc", "desc"} {
		ask := func(limit, offset int) []string {
			return c.records("/records/search", fmt.Sprintf(
				`{"from": "-1h", "limit": %d, "offset": %d, "context_ttl": "1m", "sort": [{"field": "timestamp", "direction": %q}]}`, limit, offset, direction)).ids()
		}
		var joined []string
		for len(joined) < 230 {
			page := ask(7, len(joined))
			require.True(t, len(page) != 0, direction, "nothing behind", len(joined))
			joined = append(joined, page...)
		}
		assert.EqualSlices(t, joined, ask(1000, 0), direction, "the pages are not the whole")
	}
}

func TestTimesThatNoRecordHasFindNothing(t *testing.T) {
	a, c := serve(t, standin.Options{})
	a.AddRecords(3)
	require.NoError(t, a.AddRecordBacklog(1000, time.Hour))
	for _, body := range []string{
		`{"from": 9007199254740991, "until": 9007199254740991}`,
		`{"from": 1750935535971, "until": 5}`,
		`{"from": "-100000y", "until": "-99999y"}`,
		`{"from": 5, "until": 6, "sort": [{"field": "timestamp", "direction": "desc"}], "offset": 5}`,
	} {
		if got := c.records("/records/search", body); len(got.Records) != 0 || *got.Total != 0 {
			t.Errorf("%s finds %d of %d", body, len(got.Records), *got.Total)
		}
	}
}

func TestASearchEndsWhenItsClientIsGone(t *testing.T) {
	a := standin.New(standin.Options{Now: still})
	if err := a.AddRecordBacklog(1_000_000_000, time.Hour); err != nil { // more than could be read
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequest("POST", "/api/v1/records/search", strings.NewReader(`{"from": "-1h", "filter": {"field": "none", "operator": "exists"}}`))
	r.Header.Set("Authorization", "Service apikey="+standin.DefaultAPIKey)
	r.Header.Set("Content-Type", "application/json")
	a.ServeHTTP(httptest.NewRecorder(), r.WithContext(ctx))
}
