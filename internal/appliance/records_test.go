package appliance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

var anyRecords = RecordSearch{From: 1, Until: 2, Limit: 10}

func TestASearchForRecordsWithoutItsBoundsIsNotSent(t *testing.T) {
	c := newClient(t, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })
	for _, s := range []RecordSearch{
		{}, {From: 1}, {Until: 2}, {From: -1, Until: 2}, {From: 1, Until: 2, Filter: json.RawMessage("{")},
	} {
		page := RecordPage{Page: Page{Objects: []Object{{}}}, Cursor: "old"}
		e := failureOf(t, c.SearchRecords(t.Context(), s, &page))
		assert.True(t, e.Path == "/api/v1/records/search" && e.Method == "POST", e)
		assert.Empty(t, page.Objects, "the page holds", len(page.Objects))
		assert.Equal(t, page.Cursor, "", "the page holds", len(page.Objects), "objects and the cursor")
		_, err := c.RecordID(t.Context(), s)
		failureOf(t, err)
	}
}

func TestOtherMembersOfARecordsAnswer(t *testing.T) {
	type said struct {
		total    int64
		cursor   string
		early    bool
		warnings []string
	}
	nothing := said{total: -1}
	for name, test := range map[string]struct {
		members string // beside records
		want    said
	}{
		"nothing":                                  {``, nothing},
		"all":                                      {`"total": 15, "cursor": "a\u0062=", "from": 1, "until": 2, "terminated_early": true, "warnings": ["slow", "old"],`, said{15, "ab=", true, []string{"slow", "old"}}},
		"only nulls":                               {`"total": null, "cursor": null, "terminated_early": null, "warnings": null,`, nothing},
		"no matches":                               {`"total": 0, "cursor": "", "terminated_early": false, "warnings": [],`, said{}},
		"a total of more than 32 bits":             {`"total": 25769804127,`, said{total: 25769804127}},
		"a total that is not a count":              {`"total": -5,`, nothing},
		"a total of more than 64 bits":             {`"total": 9223372036854775808,`, nothing},
		"a total that is a fraction":               {`"total": 1.5,`, nothing},
		"a total in quotes":                        {`"total": "15",`, said{total: 15}},
		"a total that is an object":                {`"total": {"value": 15},`, nothing},
		"a cursor that is a number":                {`"cursor": 5,`, nothing},
		"a cursor of half a surrogate pair":        {`"cursor": "a\ud800",`, nothing},
		"a warning that is a text":                 {`"warnings": "slow",`, said{total: -1, warnings: []string{"slow"}}},
		"warnings that are objects":                {`"warnings": [{"x": 1}],`, said{total: -1, warnings: []string{`[{"x": 1}]`}}},
		"no warnings, as an object":                {`"warnings": {},`, nothing},
		"no warnings, as a text":                   {`"warnings": "",`, nothing},
		"an end that is not a boolean":             {`"terminated_early": "true",`, nothing},
		"of two members with one name, the second": {`"total": 1, "total": 2, "cursor": "a", "cursor": "b",`, said{total: 2, cursor: "b"}},
		"names in another case":                    {`"Total": 1, "CURSOR": "a",`, nothing},
		"names further down":                       {`"x": {"total": 1, "cursor": "a", "records": 5},`, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			for _, body := range []string{
				`{` + test.members + ` "records": [{"_id": "x"}]}`,
				`{"records": [{"_id": "x"}],` + test.members + ` "z": 0}`,
			} {
				c := newClient(t, answer(200, "application/json", body))
				page := RecordPage{Total: 7, Cursor: "old", TerminatedEarly: true, Warnings: []string{"old"}}
				require.NoError(t, c.SearchRecords(t.Context(), anyRecords, &page))
				got := said{page.Total, page.Cursor, page.TerminatedEarly, slices.Clip(page.Warnings)}
				if len(got.warnings) == 0 {
					got.warnings = nil
				}
				assert.DeepEqual(t, got, test.want, body, "says")
				assert.True(t, len(page.Objects) == 1 && string(page.Objects[0].Raw) == `{"_id": "x"}` && !page.Date.IsZero(), body, len(page.Objects), page.Date)
			}
		})
	}
}

func TestRecordsAreUnchanged(t *testing.T) {
	want := []string{
		`{"_id":"a","sort":[1569284181528.201],"_source":{"n":18446744073709551616,"v":1.10,"t":1569284181528.2010}}`,
		`{ "_id" : "b" , "_id" : "c" }`, "{\"t\":\"\uFFFD\"}", `{}`,
	}
	var body string
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", "Sun, 06 Nov 1994 08:49:37 GMT")
		io.WriteString(w, body)
	})
	var page RecordPage
	for name, call := range map[string]func() error{
		"a search": func() error { return c.SearchRecords(t.Context(), anyRecords, &page) },
		"a cursor": func() error { return c.NextRecords(t.Context(), "c", time.Minute, &page) },
	} {
		body = " {\"cursor\":\"next\xff\",\"records\" : [" + want[0] + " , " + want[1] + ",{\"t\":\"\xe9\"},{}]\n} "
		require.NoError(t, call(), name)
		require.Equal(t, len(page.Objects), len(want), name, "of", page.Date, "records")
		require.Equal(t, page.Date.UnixMilli(), 784111777000, name, "of", page.Date)
		for i, o := range page.Objects {
			assert.Equal(t, string(o.Raw), want[i], name, "record", i, "is")
			assert.Equal(t, o.Repaired, i == 2, name, "record", i, "repaired")
		}
		body = `{"total":0,"records":[]}`
		err := call()
		assert.True(t, err == nil && len(page.Objects) == 0 && page.Total == 0 && page.Cursor == "", name, len(page.Objects), page.Total, page.Cursor, err)
	}
}

func TestAnAnswerWithoutRecordsIsAnErrorNotAnEmptyPage(t *testing.T) {
	for name, test := range map[string]struct {
		status              int
		body, excerpt, says string
	}{
		"a login page":                       {200, "<!DOCTYPE html><html><title>Sign in</title></html>", "Sign in", "an HTML page, not JSON"},
		"nothing":                            {200, "", "", "the answer is empty"},
		"null":                               {200, "null", "null", "the answer is null, but must be an object"},
		"an array":                           {200, `[{"_id": "a"}]`, "", "the answer is an array"},
		"an object without records":          {200, `{"total": 0}`, "", "the answer has no records"},
		"an empty object":                    {200, `{}`, "", "the answer has no records"},
		"an error with a status of success":  {200, `{"error_message": "no store"}`, "no store", "the answer has no records"},
		"records that are null":              {200, `{"records": null}`, "", "records is null"},
		"records that are an object":         {200, `{"records": {}}`, "", "records is an object"},
		"a record that is a number":          {200, `{"records": [{}, 1]}`, "", "element 1 of records is a number"},
		"a record that is an array":          {200, `{"records": [[]]}`, "", "element 0 of records is an array"},
		"records that are no array at last":  {200, `{"records": [{}], "records": 1}`, "", "records is a number"},
		"an answer cut short in a record":    {200, `{"cursor": "c", "records": [{"_id": `, "", "the answer's JSON is incomplete"},
		"an answer cut short behind records": {200, `{"cursor": "c", "records": [{"_id": "a"}]`, "", "the answer's JSON is incomplete"},
		"an answer cut short in a name":      {200, `{"records": [], "cur`, "", "the answer's JSON is incomplete"},
		"an answer cut short before a value": {200, `{"records": [], "cursor":`, "", "the answer's JSON is incomplete"},
		"an answer and more":                 {200, `{"records": [{"_id": "a"}]}{}`, "", "the answer has data after its JSON"},
		"a comma too many":                   {200, `{"records": [],}`, "", "is not JSON"},
		"a name without quotes":              {200, `{records: []}`, "", "is not JSON"},
		"an unknown store":                   {404, ``, "", "404"},
		"a cursor that expired":              {400, `{"error_message": "no such cursor"}`, "no such cursor", "400"},
		"a key that may not":                 {403, ``, "", "check the API key"},
		"an outage":                          {502, `<html><title>Bad</title></html>`, "Bad", "502"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, answer(test.status, "", test.body))
			for _, call := range []func(*RecordPage) error{
				func(page *RecordPage) error { return c.SearchRecords(t.Context(), anyRecords, page) },
				func(page *RecordPage) error { return c.NextRecords(t.Context(), "c", time.Minute, page) },
			} {
				page := RecordPage{Page: Page{Objects: []Object{{}}, Date: time.Now()}, Total: 5, Cursor: "old", TerminatedEarly: true, Warnings: []string{"old"}}
				e := failureOf(t, call(&page))
				assert.True(t, e.Status == test.status && e.Excerpt == test.excerpt && strings.Contains(e.Error(), test.says), e, "excerpt", e.Excerpt)
				assert.True(t, len(page.Objects) == 0 && page.Date.IsZero() && page.Total == -1 && page.Cursor == "" && !page.TerminatedEarly && page.Warnings == nil, page)
			}
		})
	}
	t.Run("records without a time", func(t *testing.T) {
		c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Date"] = nil
			io.WriteString(w, `{"records": [{"_id": "a"}], "cursor": "c"}`)
		})
		var page RecordPage
		e := failureOf(t, c.SearchRecords(t.Context(), anyRecords, &page))
		assert.True(t, errors.Is(e, errNoDate) && len(page.Objects) == 0 && page.Cursor == "", e, "and the page holds", len(page.Objects), "records, cursor", page.Cursor)
	})
}

func FuzzRecordPage(f *testing.F) {
	for _, seed := range []string{
		`{"records":[]}`, ` {"total": 15, "records" : [ {} , {"a":1.10,"b":[true,null,"x\u0000\ud800"]} ], "cursor":"c"} `,
		`{"records":[{"a":1}],"records":[{"a":2}]}`, "{\"records\":[{\"a\":\"\xff\"}],\"cursor\":\"\xff\"}", `{"rec\u006frds":[{}]}`,
		`{"records":[{}]`, `{"records":[{},]}`, `{"records":[{}]}x`, `{"records":null}`, `{"Records":[]}`, `{"x":{"records":[{}]}}`,
		`{"warnings":["a"],"terminated_early":true,"records":[]}`, `{"total":1E400,"records":[{"n":-0}]}`, `[]`, `null`, `<html>`, ``, "\ufeff{}",
	} {
		f.Add([]byte(seed))
	}
	var page RecordPage
	f.Fuzz(func(t *testing.T, body []byte) {
		body = bytes.Clone(body)
		var want map[string]json.RawMessage
		wantErr := json.Unmarshal(body, &want)
		var records []json.RawMessage
		if wantErr == nil {
			_ = json.Unmarshal(want["records"], &records)
		}
		err := page.decode(body)
		if err != nil {
			acceptable := records != nil && bytes.Count(body, []byte(`records"`)) == 1 // none of several is of a wrong type
			for _, r := range records {
				acceptable = acceptable && r[0] == '{'
			}
			require.True(t, !acceptable || bytes.Contains(body, []byte(`\u`)), "refused records", err)
			return
		}
		require.True(t, wantErr == nil && records != nil && len(records) <= len(page.Objects), len(page.Objects), len(records), wantErr)
		// If records comes twice, nothing is dropped and the last ones stay last.
		shown := page.Objects[len(page.Objects)-len(records):]
		for i, r := range records {
			raw := string(r)
			repaired := strings.ToValidUTF8(raw, "\uFFFD")
			require.True(t, string(shown[i].Raw) == repaired && shown[i].Repaired == (repaired != raw), "record", i, string(shown[i].Raw), repaired)
		}
		for i, o := range page.Objects {
			require.True(t, json.Valid(o.Raw) && utf8.Valid(o.Raw) && o.Raw[0] == '{', "record", i, string(o.Raw))
		}
		require.True(t, page.Total >= -1, "cursor", page.Cursor, page.Total, "in all")
		require.True(t, utf8.ValidString(page.Cursor), "cursor", page.Cursor)
	})
}

func BenchmarkRecordPage(b *testing.B) {
	const record = `{"_id":"AW1goQ","_index":"store-11","_type":"~http","sort":[1569284181528.201],"_source":{"timestamp":1569284181528.201,` +
		`"flowId":"0cac4df05d896054","client":{"type":"device","value":["fff41107140a0000"]},"uri":"prod1.example/login","statusCode":302}}`
	body := []byte(`{"total":1000,"records":[` + strings.TrimSuffix(strings.Repeat(record+",", 1000), ",") + `],"cursor":"c"}`)
	var page RecordPage
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, page.decode(body))
	}
}

func TestWarningsContainNoSecret(t *testing.T) {
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		warnings, err := json.Marshal([]string{"you sent " + r.Header.Get("Authorization"), "slow\nstore"})
		assert.NoError(t, err)
		fmt.Fprintf(w, `{"records": [], "warnings": %s}`, warnings)
	})
	var page RecordPage
	require.NoError(t, c.SearchRecords(t.Context(), anyRecords, &page))
	assert.EqualSlices(t, page.Warnings, []string{"you sent Service apikey=[redacted]", "slow store"})
}
