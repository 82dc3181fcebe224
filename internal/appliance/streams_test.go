package appliance

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// streams are the calls that fill a page with the elements of an array.
var streams = map[string]func(t *testing.T, c *Client, page *Page) error{
	"the audit log": func(t *testing.T, c *Client, page *Page) error { return c.AuditLog(t.Context(), 500, 0, page) },
	"the devices": func(t *testing.T, c *Client, page *Page) error {
		return c.SearchDevices(t.Context(), make([]int64, 100), page)
	},
	"the formats":      func(t *testing.T, c *Client, page *Page) error { return c.DetectionFormats(t.Context(), page) },
	"the tuning rules": func(t *testing.T, c *Client, page *Page) error { return c.HidingRules(t.Context(), page) },
	"the intervals":    func(t *testing.T, c *Client, page *Page) error { return c.ExclusionIntervals(t.Context(), page) },
	"the alerts":       func(t *testing.T, c *Client, page *Page) error { return c.Alerts(t.Context(), page) },
}

// undated are the requests whose pages have no time, since no position depends on it.
var undated = map[string]bool{"the devices": true, "the formats": true}

func TestRequestsOfTheOtherStreams(t *testing.T) {
	type sent struct {
		method, path, body string
		repeatable         bool // where the appliance had just closed the connection
	}
	const noRecords = `{"records": []}`
	search := func(s RecordSearch) func(*testing.T, *Client) error {
		return func(t *testing.T, c *Client) error { return c.SearchRecords(t.Context(), s, new(RecordPage)) }
	}
	for name, test := range map[string]struct {
		call   func(*testing.T, *Client) error
		answer string
		want   sent
	}{
		"audit log entries": {
			func(t *testing.T, c *Client) error { return c.AuditLog(t.Context(), 500, 10000, new(Page)) }, `[]`,
			sent{"GET", "/api/v1/auditlog?limit=500&offset=10000", "", true},
		},
		"one audit log entry": {
			func(t *testing.T, c *Client) error { _, _, _, err := c.AuditEntry(t.Context(), 7); return err }, `[]`,
			sent{"GET", "/api/v1/auditlog?limit=1&offset=7", "", true},
		},
		"the first records say how they are sorted": {
			search(RecordSearch{From: 1700000000000, Until: 1700000060000}), noRecords,
			sent{"POST", "/api/v1/records/search", `{"from":1700000000000,"until":1700000060000,"sort":[{"field":"timestamp","direction":"asc"}]}`, true},
		},
		"records of types that a filter lets through": {
			search(RecordSearch{
				From: 1, Until: 2, Types: []string{"~http", "~dns"}, Filter: json.RawMessage(`{"field": "statusCode", "operator": "=", "operand": "500"}`),
				Limit: 10000, Offset: 20000, ContextTTL: time.Minute,
			}), noRecords,
			sent{"POST", "/api/v1/records/search", `{"from":1,"until":2,"types":["~http","~dns"],` +
				`"filter":{"field":"statusCode","operator":"=","operand":"500"},"limit":10000,"offset":20000,` +
				`"sort":[{"field":"timestamp","direction":"asc"}],"context_ttl":60000}`, true},
		},
		"the records of a cursor, which may move by being asked": {
			func(t *testing.T, c *Client) error {
				return c.NextRecords(t.Context(), `DnF1ZXJ5"=é`, 30*time.Second, new(RecordPage))
			}, noRecords,
			sent{"POST", "/api/v1/records/cursor?context_ttl=30000", `{"cursor":"DnF1ZXJ5\"=é"}`, false},
		},
		"the id of one record": {
			func(t *testing.T, c *Client) error {
				_, err := c.RecordID(t.Context(), RecordSearch{From: 1, Until: 2, Limit: 1, Offset: 3})
				return err
			}, noRecords,
			sent{"POST", "/api/v1/records/search", `{"from":1,"until":2,"limit":1,"offset":3,"sort":[{"field":"timestamp","direction":"asc"}]}`, true},
		},
		"devices by their ids": {
			func(t *testing.T, c *Client) error {
				return c.SearchDevices(t.Context(), []int64{25769803777, 6}, new(Page))
			}, `[]`,
			sent{"POST", "/api/v1/devices/search", `{"filter":{"field":"id","operator":"in","operand":[25769803777,6]},"limit":2}`, true},
		},
		"the formats": {
			func(t *testing.T, c *Client) error { return c.DetectionFormats(t.Context(), new(Page)) }, `[]`,
			sent{"GET", "/api/v1/detections/formats", "", true},
		},
		"the tuning rules": {
			func(t *testing.T, c *Client) error { return c.HidingRules(t.Context(), new(Page)) }, `[]`,
			sent{"GET", "/api/v1/detections/rules/hiding", "", true},
		},
		"the exclusion intervals": {
			func(t *testing.T, c *Client) error { return c.ExclusionIntervals(t.Context(), new(Page)) }, `[]`,
			sent{"GET", "/api/v1/exclusionintervals", "", true},
		},
		"the alerts": {
			func(t *testing.T, c *Client) error { return c.Alerts(t.Context(), new(Page)) }, `[]`,
			sent{"GET", "/api/v1/alerts", "", true},
		},
		"the settings of the record store, under the name of the product": {
			func(t *testing.T, c *Client) error { return c.Cluster(t.Context(), new(Page)) }, `{}`,
			sent{"GET", "/api/v1/service/cluster", "", true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got sent
			count := 0
			c := newClientOf(t, func(o *Options) {
				o.URL = "http://sensor.example"
				o.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
					body, _ := io.ReadAll(r.Body)
					_, repeatable := r.Header["Idempotency-Key"]
					got = sent{r.Method, r.URL.RequestURI(), string(body), repeatable || r.Method == "GET"}
					assert.Equal(t, r.Header.Get("Content-Type"), map[bool]string{true: "application/json"}[len(body) > 0], "Content-Type")
					count++
					return respond(r, 200, nil, test.answer)
				})
			})
			require.NoError(t, test.call(t, c))
			assert.Equal(t, got, test.want, "sent")
			assert.Equal(t, count, 1, "sent", "times")
		})
	}
}

func TestElementsAreUnchanged(t *testing.T) {
	want := []string{
		`{"id":25769804127,"n":18446744073709551616,"v":1.10,"at":1569284181528.201}`, `{ "a" : 1 , "a" : 2 }`, "{\"t\":\"\uFFFD\"}",
	}
	body := "\n[" + want[0] + " , " + want[1] + ",{\"t\":\"\xe9\"}]\n"
	for name, call := range streams {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Date", "Sun, 06 Nov 1994 08:49:37 GMT")
				io.WriteString(w, body)
			})
			var page Page
			for range 2 { // it can be used again
				require.NoError(t, call(t, c, &page))
				require.True(t, len(page.Objects) == len(want) && (undated[name] || page.Date.UnixMilli() == 784111777000), len(page.Objects), "objects of", page.Date)
				for i, o := range page.Objects {
					assert.Equal(t, string(o.Raw), want[i], "object", i, "is")
					assert.Equal(t, o.Repaired, i == 2, "object", i, "repaired")
				}
			}
		})
	}
}

func TestAnythingButAnArrayOfObjectsIsAnErrorNotAnEmptyPage(t *testing.T) {
	for stream, call := range streams {
		for name, test := range map[string]struct {
			status     int
			body, says string
		}{
			"a login page":              {200, "<!DOCTYPE html><html><title>Sign in</title></html>", "an HTML page, not JSON"},
			"nothing":                   {200, "", "the answer is empty"},
			"null":                      {200, "null", "the answer is null"},
			"an object":                 {200, `{"entries": [{"id": 1}]}`, "the answer is an object"},
			"an array of ids":           {200, `[{"id": 1}, 2]`, "element 1 of the answer is a number"},
			"an array cut short":        {200, `[{"id": 1}, {"id"`, "the answer's JSON is incomplete"},
			"an array and more":         {200, `[{"id": 1}] []`, "the answer has data after its JSON"},
			"a path that is not there":  {404, `{"detail": "no"}`, "check that url is the appliance's own address"},
			"an outage":                 {503, "", "503"},
			"a key that is not allowed": {403, "", "check the API key"},
		} {
			t.Run(stream+" is "+name, func(t *testing.T) {
				page := Page{Objects: []Object{{}}, Date: time.Now()}
				e := failureOf(t, call(t, newClient(t, answer(test.status, "", test.body)), &page))
				assert.Equal(t, e.Status, test.status, e)
				assert.Contains(t, e.Error(), test.says, e)
				assert.True(t, len(page.Objects) == 0 && page.Date.IsZero(), "the page holds", len(page.Objects), "objects of", page.Date)
			})
		}
		if undated[stream] {
			continue
		}
		t.Run(stream+" without a time is an error", func(t *testing.T) {
			c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header()["Date"] = nil
				io.WriteString(w, `[{"id": 1}]`)
			})
			var page Page
			e := failureOf(t, call(t, c, &page))
			assert.True(t, errors.Is(e, errNoDate) && len(page.Objects) == 0, e, len(page.Objects), "objects")
		})
	}
}

func TestTheBeginningOfAnAuditEntryHasItsPosition(t *testing.T) {
	long := strings.Repeat("x", 9000)
	for name, test := range map[string]struct {
		body     string
		id, time int64
		found    bool
		fails    bool
	}{
		"an entry": {
			` [ {"id": 25769804127, "time": 1710001000123, "body": {"id": 1, "text": "` + long + `"}} ] `, 25769804127, 1710001000123, true, false,
		},
		"an entry whose position stands last": {`[{"body":["` + long + `",{"id":3}],"time":5,"id":7}]`, 7, 5, true, false},
		"the first of two":                    {`[{"id":1,"time":2},{"id":3,"time":4}]`, 1, 2, true, false},
		"an entry with its numbers as texts":  {`[{"id":"7","time":"1710001000123.5"}]`, 7, 1710001000123, true, false},
		"an entry without a position":         {`[{"id":"one","time":"soon"}]`, 0, 0, true, false},
		"the end of the log":                  {` [ ] `, 0, 0, false, false},
		"null":                                {`null`, 0, 0, false, true},
		"an object":                           {`{"id":1,"time":2}`, 0, 0, false, true},
		"an array of ids":                     {`[1]`, 0, 0, false, true},
		"an entry that is cut short":          {`[{"id":1,"time":2, "body": "x`, 1, 2, true, false},
		"an entry whose id is not sent":       {`[{"time":2,"id":1`, 0, 2, true, false},
		"nothing":                             {``, 0, 0, false, true},
		"a login page":                        {`<html></html>`, 0, 0, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, answer(200, "application/json", test.body), func(o *Options) { o.MaxAnswer = 100 })
			id, at, found, err := c.AuditEntry(t.Context(), 3)
			assert.True(t, (err != nil) == test.fails && id == test.id && at == test.time && found == test.found, "entry", id, at, "found", found, err)
		})
	}
}

func TestTheBeginningOfARecordHasItsID(t *testing.T) {
	long := strings.Repeat("x", 9000)
	for name, test := range map[string]struct {
		body, id string
		fails    bool
	}{
		"a record":                       {`{"total":9,"_id":"no","records":[{"_source":{"_id":"x","pad":"` + long + `"},"_id":"AW1goQ","_type":"~http"}],"cursor":"c"}`, "AW1goQ", false},
		"an id with escapes":             {`{"records":[{"_id":"\u00e9\"\\"}]}`, `é"\`, false},
		"an id that is not Unicode":      {"{\"records\":[{\"_id\":\"a\xff\\ud800\"}]}", "a\uFFFD\uFFFD", false},
		"an id that is a number":         {`{"records":[{"_id":5}]}`, "", false},
		"no id":                          {`{"records":[{}]}`, "", false},
		"no record":                      {`{"records":[],"total":0}`, "", false},
		"records that are no array":      {`{"records":{"_id":"a"}}`, "", true},
		"a record that is not an object": {`{"records":["a"]}`, "", true},
		"an array":                       {`[{"_id":"a"}]`, "", true},
		"a record that is cut short":     {`{"records":[{"_id":"a","b":"x`, "a", false},
		"an HTML page":                   {`<html></html>`, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, answer(200, "application/json", test.body), func(o *Options) { o.MaxAnswer = 100 })
			id, err := c.RecordID(t.Context(), RecordSearch{From: 1, Until: 2, Limit: 1})
			assert.True(t, (err != nil) == test.fails && id == test.id, "record", id, err)
		})
	}
}
