package appliance_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

type recordAnswer struct {
	Total   *int
	Records []struct {
		ID     string `json:"_id"`
		Type   string `json:"_type"`
		Sort   []json.Number
		Source struct {
			Timestamp json.Number
			RspBytes  json.Number `json:"rspBytes"`
		} `json:"_source"`
	}
	Cursor          string
	From, Until     int64
	TerminatedEarly bool `json:"terminated_early"`
	Warnings        []string
}

func (c *caller) records(path, body string) recordAnswer {
	c.t.Helper()
	var a recordAnswer
	require.NoError(c.t, json.Unmarshal([]byte(c.want(http.StatusOK, "POST", path, body).body), &a))
	return a
}

func (a recordAnswer) ids() []string {
	var all []string
	for _, r := range a.Records {
		all = append(all, r.ID)
	}
	return all
}

func (a recordAnswer) stamps() []string {
	var all []string
	for _, r := range a.Records {
		all = append(all, r.Source.Timestamp.String())
	}
	return all
}

func TestRecordSearch(t *testing.T) {
	at := epoch.UnixMilli() - 60_000
	a, c := serve(t, standin.Options{})
	for i := range int64(10) {
		a.AddRecordsAt(1, (at+i*1000)*1000+201)
	}
	stamp := func(i int64) string { return fmt.Sprintf("%d.201", at+i*1000) }
	for name, test := range map[string]struct {
		body  string
		want  []string
		total int
	}{
		"everything from a time on":       {fmt.Sprintf(`{"from": %d}`, at+7000), []string{stamp(7), stamp(8), stamp(9)}, 3},
		"a time before now":               {`{"from": "-53s"}`, []string{stamp(7), stamp(8), stamp(9)}, 3},
		"a time far ahead":                {`{"from": "999999999999999"}`, nil, 0},
		"a number before now":             {`{"from": -52000}`, []string{stamp(8), stamp(9)}, 2},
		"up to a time":                    {fmt.Sprintf(`{"from": "-1h", "until": %d}`, at+1001), []string{stamp(0), stamp(1)}, 2},
		"the newest first":                {`{"from": "-1h", "limit": 2, "sort": [{"field": "timestamp", "direction": "desc"}]}`, []string{stamp(9), stamp(8)}, 10},
		"a page":                          {`{"from": "-1h", "limit": 2, "offset": 3}`, []string{stamp(3), stamp(4)}, 10},
		"nothing behind the end":          {`{"from": "-1h", "offset": 30}`, nil, 10},
		"an unknown type finds nothing":   {`{"from": "-1h", "types": ["~ftp"]}`, nil, 0},
		"a filter that nothing passes":    {`{"from": "-1h", "filter": {"field": "reqBytes", "operator": "<", "operand": "0"}}`, nil, 0},
		"a filter that everything passes": {`{"from": "-1h", "limit": 1, "filter": {"operator": "not", "rules": [{"field": "nothing", "operator": "exists"}]}}`, []string{stamp(0)}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.records("/records/search", test.body)
			if !slices.Equal(got.stamps(), test.want) || *got.Total != test.total || got.Cursor != "" {
				t.Errorf("got %v of %d with the cursor %q, want %v of %d", got.stamps(), *got.Total, got.Cursor, test.want, test.total)
			}
		})
	}
	for name, body := range map[string]string{
		"a limit too large":            `{"from": 5, "limit": 10001}`,
		"an unknown field in the sort": `{"from": 5, "sort": [{"field": "flowId", "direction": "asc"}]}`,
		"no operand":                   `{"from": 5, "filter": {"field": "a", "operator": "="}}`,
		"a pattern that is none":       `{"from": 5, "filter": {"field": "a", "operator": "~", "operand": "("}}`,
		"a pattern that takes long":    `{"from": 5, "filter": {"field": "a", "operator": "~", "operand": "(a{40}){40}b(a{40}){40}"}}`,
		"patterns that take long":      `{"from": 5, "filter": {"operator": "or", "rules": [` + strings.Repeat(`{"field": "a", "operator": "~", "operand": "a{999}"},`, 3) + `{"field": "a", "operator": "exists"}]}}`,
		"a time that is none":          `{"from": "yesterday"}`,
		"a time beyond exact numbers":  `{"from": "9999999999999999"}`,
		"a bad context_ttl":            `{"from": 5, "context_ttl": "soon"}`,
		"a context_ttl that overflows": `{"from": 5, "context_ttl": "99999999h"}`,
		"a context_ttl beyond a day":   `{"from": 5, "context_ttl": "86400001"}`,
		"no value":                     `{"from": 5, "filter": {"field": "a", "operator": "in", "operand": []}}`,
		"a filter that is too long":    `{"from": 5, "filter": {"field": "a", "operator": "in", "operand": ["` + strings.Repeat(strings.Repeat("a", 1000)+`","`, 70) + `"]}}`,
	} {
		t.Run(name+" is refused", func(t *testing.T) { c.want(http.StatusBadRequest, "POST", "/records/search", body) })
	}
	t.Run("from and until take every form of a time", func(t *testing.T) {
		for _, from := range []string{"-3600000ms", "-3600s", "-60m", "-1h", "-1d", "-1w", "-1M", "-1y", "-3600000", "1772590000000"} {
			got := c.records("/records/search", fmt.Sprintf(`{"from": %q, "until": 0}`, from))
			assert.True(t, len(got.Records) == 10 && got.Until == epoch.UnixMilli() && got.From < got.Until, from, len(got.Records), got.From, got.Until)
		}
	})
	t.Run("the operations are counted by name", func(t *testing.T) {
		counts := a.Requests()
		assert.True(t, counts["POST /records/search"] != 0, counts)
	})
}

// follow reads a search to its end by cursors, and returns how many records each
// answer had.
func (c *caller) follow(search string) (sizes []int) {
	c.t.Helper()
	got := c.records("/records/search", search)
	for cursor := got.Cursor; ; {
		sizes = append(sizes, len(got.Records))
		if cursor == "" || len(got.Records) == 0 {
			return sizes
		}
		got = c.records("/records/cursor?context_ttl=6e4", fmt.Sprintf(`{"cursor": %q}`, cursor))
		if got.Cursor != "" {
			cursor = got.Cursor
		}
	}
}

func TestRecordCursors(t *testing.T) {
	const search = `{"from": "-1h", "limit": 10, "context_ttl": "1m"}`
	for name, test := range map[string]struct {
		options standin.Options
		hazards standin.Hazards
		search  string
		want    []int
	}{
		"a cursor leads to an empty answer":           {want: []int{10, 10, 5, 0}},
		"so does one that is renewed":                 {hazards: standin.Hazards{CursorRenews: true}, want: []int{10, 10, 5, 0}},
		"the first batch may be smaller":              {hazards: standin.Hazards{RecordBatch: 3}, want: []int{3, 10, 10, 2, 0}},
		"there is none where everything fits":         {search: `{"from": "-1h", "limit": 100, "context_ttl": 60000}`, want: []int{25}},
		"there is none where none was asked for":      {search: `{"from": "-1h", "limit": 10}`, want: []int{10}},
		"there is none in a store that is no product": {options: standin.Options{ThirdPartyRecords: true}, want: []int{10}},
	} {
		t.Run(name, func(t *testing.T) {
			a, c := serve(t, test.options)
			for i := range int64(25) {
				a.AddRecordsAt(1, (epoch.UnixMilli()-60_000+i)*1000)
			}
			a.SetHazards(test.hazards)
			if test.search == "" {
				test.search = search
			}
			assert.EqualSlices(t, c.follow(test.search), test.want, "records of the answers")
		})
	}
	t.Run("a cursor that nobody used for its life has expired", func(t *testing.T) {
		var moved atomic.Int64
		a, c := serve(t, standin.Options{Now: func() time.Time { return epoch.Add(time.Duration(moved.Load())) }})
		a.AddRecordsAt(25, (epoch.UnixMilli()-60_000)*1000)
		body := fmt.Sprintf(`{"cursor": %q}`, c.records("/records/search", search).Cursor)
		moved.Add(int64(59 * time.Second))
		c.records("/records/cursor?context_ttl=1m", body)
		moved.Add(int64(61 * time.Second))
		c.want(http.StatusBadRequest, "POST", "/records/cursor", body)
	})
	t.Run("what is stored later is not behind a cursor", func(t *testing.T) {
		a, c := serve(t, standin.Options{})
		a.AddRecordsAt(15, (epoch.UnixMilli()-60_000)*1000)
		cursor := c.records("/records/search", search).Cursor
		a.AddRecordsAt(10, (epoch.UnixMilli()-50_000)*1000)
		got := c.records("/records/cursor", fmt.Sprintf(`{"cursor": %q}`, cursor))
		assert.Equal(t, len(got.Records), 5, "records behind the cursor")
	})
	t.Run("a cursor moves although its answer does not get through", func(t *testing.T) {
		for name, hazards := range map[string]standin.Hazards{"cut": {CutBody: 1}, "lost": {Lost: 1}} {
			a, c := serve(t, standin.Options{})
			a.AddRecordsAt(25, (epoch.UnixMilli()-60_000)*1000)
			body := fmt.Sprintf(`{"cursor": %q}`, c.records("/records/search", search).Cursor)
			a.SetHazards(hazards)
			got, err := c.send("POST", "/api/v1/records/cursor", body)
			assert.True(t, err != nil || got.err != nil, name, "it got through")
			a.SetHazards(standin.Hazards{})
			if got := c.records("/records/cursor", body); len(got.Records) != 5 {
				t.Errorf("%s: %d records behind it", name, len(got.Records))
			}
		}
	})
	t.Run("a cursor that was replaced is no more, and the other lives as long", func(t *testing.T) {
		var moved atomic.Int64
		a, c := serve(t, standin.Options{Now: func() time.Time { return epoch.Add(time.Duration(moved.Load())) }})
		a.AddRecordsAt(25, (epoch.UnixMilli()-60_000)*1000)
		a.SetHazards(standin.Hazards{CursorRenews: true})
		older := fmt.Sprintf(`{"cursor": %q}`, c.records("/records/search", search).Cursor)
		newer := fmt.Sprintf(`{"cursor": %q}`, c.records("/records/cursor", older).Cursor)
		c.want(http.StatusBadRequest, "POST", "/records/cursor", older)
		moved.Add(int64(59 * time.Second))
		got := c.records("/records/cursor", newer)
		assert.True(t, len(got.Records) == 5 && got.Cursor == "", len(got.Records), "records and the cursor", got.Cursor)
	})
	t.Run("every cursor can be refused", func(t *testing.T) {
		a, c := serve(t, standin.Options{})
		a.AddRecordsAt(25, (epoch.UnixMilli()-60_000)*1000)
		a.SetHazards(standin.Hazards{CursorsExpireAtOnce: true})
		got := c.want(http.StatusBadRequest, "POST", "/records/cursor", fmt.Sprintf(`{"cursor": %q}`, c.records("/records/search", search).Cursor))
		assert.Equal(t, got.body, `{"error_message":"the cursor has expired"}`, "it says")
	})
	t.Run("a request without a cursor is refused for that reason", func(t *testing.T) {
		_, c := serve(t, standin.Options{})
		got := c.want(http.StatusBadRequest, "POST", "/records/cursor", `{}`)
		assert.Equal(t, got.body, `{"error_message":"missing property 'cursor'"}`, "it says")
		c.want(http.StatusBadRequest, "POST", "/records/cursor?context_ttl=-1", `{"cursor": "x"}`)
	})
	t.Run("the cursor that expires first is dropped if there are too many", func(t *testing.T) {
		a, c := serve(t, standin.Options{})
		a.AddRecordsAt(25, (epoch.UnixMilli()-60_000)*1000)
		first := c.records("/records/search", search).Cursor
		second := c.records("/records/search", `{"from": "-1h", "limit": 10, "context_ttl": "2m"}`).Cursor
		for range 199 {
			c.records("/records/search", `{"from": "-1h", "limit": 1, "context_ttl": "2m"}`)
		}
		c.want(http.StatusBadRequest, "POST", "/records/cursor", fmt.Sprintf(`{"cursor": %q}`, first))
		c.records("/records/cursor", fmt.Sprintf(`{"cursor": %q}`, second))
	})
	t.Run("a store that is no product refuses cursors", func(t *testing.T) {
		_, c := serve(t, standin.Options{ThirdPartyRecords: true})
		c.want(http.StatusNotFound, "POST", "/records/cursor", `{"cursor": "x"}`)
	})
}

func TestARecordBacklogIsReadLikeRecordsThatWereStored(t *testing.T) {
	a, c := serve(t, standin.Options{})
	require.NoError(t, a.AddRecordBacklog(1_000_000, 24*time.Hour))
	seen := make(map[string]bool)
	last := ""
	for from := epoch.UnixMilli() - 600_000; from < epoch.UnixMilli()-540_000; from += 10_000 {
		got := c.records("/records/search", fmt.Sprintf(`{"from": %d, "until": %d, "limit": 1000, "sort": [{"field": "timestamp", "direction": "asc"}]}`, from, from+10_000))
		for _, r := range got.Records {
			assert.False(t, seen[r.ID], r.ID, "came twice")
			seen[r.ID] = true
			if stamp := r.Source.Timestamp.String(); stamp < last {
				t.Errorf("%s comes behind %s", stamp, last)
			} else {
				last = stamp
			}
			assert.True(t, require.Value(r.Source.RspBytes.Int64())(t) > 1<<53, "rspBytes is", r.Source.RspBytes)
		}
	}
	n := len(seen)
	assert.True(t, n >= 650 && n <= 750, n, "records in a minute, where 694 are due")
}

func TestRecordHazards(t *testing.T) {
	at := epoch.UnixMilli() - 60_000
	search := fmt.Sprintf(`{"from": %d, "until": %d}`, at, at+1)
	for name, test := range map[string]struct {
		hazards standin.Hazards
		micros  int64
		found   int
	}{
		"a record at the first millisecond is found":                {micros: at * 1000, found: 1},
		"one at the last is not":                                    {micros: (at + 1) * 1000, found: 0},
		"unless the bound is inclusive":                             {hazards: standin.Hazards{RecordUntilInclusive: true}, micros: (at + 1) * 1000, found: 1},
		"one behind the last is not":                                {hazards: standin.Hazards{RecordUntilInclusive: true}, micros: (at+1)*1000 + 500, found: 0},
		"unless fractions do not count":                             {hazards: standin.Hazards{RecordUntilInclusive: true, RecordWholeMillis: true}, micros: (at+1)*1000 + 500, found: 1},
		"an until that is exclusive has no use for its millisecond": {hazards: standin.Hazards{RecordWholeMillis: true}, micros: (at+1)*1000 + 500, found: 0},
		"nor has from for the one in front of it":                   {hazards: standin.Hazards{RecordWholeMillis: true}, micros: at*1000 - 1, found: 0},
		"a search that is terminated early says so":                 {hazards: standin.Hazards{TerminatedEarly: true}, micros: at * 1000, found: 1},
	} {
		t.Run(name, func(t *testing.T) {
			a, c := serve(t, standin.Options{})
			a.AddRecordsAt(1, test.micros)
			a.SetHazards(test.hazards)
			got := c.records("/records/search", search)
			assert.Equal(t, len(got.Records), test.found, got)
			assert.Equal(t, got.TerminatedEarly, test.hazards.TerminatedEarly, got)
		})
	}
	t.Run("a search that is terminated early lacks its last records", func(t *testing.T) {
		a, c := serve(t, standin.Options{})
		a.AddRecordsAt(4, at*1000)
		a.SetHazards(standin.Hazards{TerminatedEarly: true})
		got := c.records("/records/search", search)
		assert.True(t, len(got.Records) == 2 && *got.Total == 4, got)
	})
	t.Run("ties come in another order at each search", func(t *testing.T) {
		a, c := serve(t, standin.Options{ThirdPartyRecords: true})
		a.AddRecordsAt(50, at*1000)
		a.SetHazards(standin.Hazards{RecordTiesShuffle: true})
		first, second := c.records("/records/search", search).ids(), c.records("/records/search", search).ids()
		assert.False(t, slices.Equal(first, second), "they came in the same order twice")
		slices.Sort(first)
		slices.Sort(second)
		assert.True(t, len(first) == 50 && slices.Equal(first, second), "found", first, "then", second)
	})
	t.Run("totals can be missing", func(t *testing.T) {
		a, c := serve(t, standin.Options{})
		a.SetHazards(standin.Hazards{TotalMissing: true})
		got := c.records("/records/search", search)
		assert.True(t, got.Total == nil && len(got.Warnings) == 0, got)
	})
}
