package appliance_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	standin "ndrbridge/test/appliance"

	"ndrbridge/test/assert"
)

// now is epoch in milliseconds.
var now = epoch.UnixMilli()

const minute = 60_000

// someDetections differ in everything that a search can ask for.
func someDetections() []standin.Detection {
	return []standin.Detection{
		{ID: 1, Title: "d", Type: "port_scan", Categories: []string{"sec", "sec.recon"}, RiskScore: new(60),
			StartTime: now - 50*minute, UpdateTime: now - 40*minute, EndTime: now - 40*minute, ModTime: now - 10*minute,
			Status: "new", Assignee: "ada", TicketID: standin.TicketID{ID: "T-1"}},
		{ID: 2, Title: "c", Type: "dns_tunnel", Categories: []string{"sec.command"}, RiskScore: new(61), Recommended: true,
			StartTime: now - 45*minute, UpdateTime: now - 30*minute, ModTime: now - 5*minute,
			Status: "closed", Resolution: "action_taken", Assignee: "me-myself"},
		{ID: 3, Title: "b", Type: "http_slow_server", Categories: []string{"perf", "perf.web"},
			StartTime: now - 20*minute, UpdateTime: now - 10*minute, EndTime: now - 10*minute, ModTime: now - 5*minute,
			TicketID: standin.TicketID{ID: "3041", Numeric: true}},
		{ID: 6<<32 + 4, Title: "a", Type: "custom.mine", Categories: []string{"sec"}, RiskScore: new(0),
			StartTime: now - 4*minute, UpdateTime: now - 10*minute, ModTime: now - 1,
			Status: "closed", Resolution: "no_action_taken"},
	}
}

const four = 6<<32 + 4

func TestSearch(t *testing.T) {
	a, c := serve(t, standin.Options{User: "me-myself", Console: true})
	a.Add(someDetections()...)
	tests := []struct {
		name, body string
		want       []int64
	}{
		{"the default order is most recent update_time, then id", `{}`, []int64{3, four, 2, 1}},
		{"null counts as absent", `{"filter":null,"limit":null,"mod_time":null}`, []int64{3, four, 2, 1}},
		{"sort by mod_time, then id", sorted("mod_time", "asc", "id", "asc"), []int64{1, 2, 3, four}},
		{"sort by mod_time, then id descending", sorted("mod_time", "asc", "id", "desc"), []int64{1, 3, 2, four}},
		{"sort by mod_time descending", sorted("mod_time", "desc"), []int64{four, 2, 3, 1}},
		{"sort by title", sorted("title", "asc"), []int64{four, 3, 2, 1}},
		{"sort by end_time puts what goes on last", sorted("end_time", "asc"), []int64{1, 3, 2, four}},

		{"sort by a list", sorted("categories", "desc"), []int64{2, four, 1, 3}},
		{"sort by a URL that not every detection has", sorted("ticket_url", "desc", "id", "asc"), []int64{1, 3, 2, four}},
		{"sort by what is true or false", sorted("recommended", "desc"), []int64{2, 1, 3, four}},

		{"mod_time is an exclusive bound", fmt.Sprintf(`{"mod_time":%d}`, now-5*minute), []int64{four}},
		{"mod_time before a tie", fmt.Sprintf(`{"mod_time":%d}`, now-5*minute-1), []int64{3, four, 2}},
		{"mod_time 0 is the time of the request", `{"mod_time":0}`, []int64{}},
		{"a negative mod_time is relative in milliseconds", `{"mod_time":-300001}`, []int64{3, four, 2}},
		{"a negative mod_time with a unit", `{"mod_time":"-6m"}`, []int64{3, four, 2}},
		{"a mod_time of long ago finds all", `{"mod_time":"-1y"}`, []int64{3, four, 2, 1}},
		{"update_time is an exclusive bound", fmt.Sprintf(`{"update_time":%d}`, now-30*minute), []int64{3, four}},
		{"from finds what goes on and what ended later", fmt.Sprintf(`{"from":%d}`, now-30*minute), []int64{3, four, 2}},
		{"from finds what ended at that moment", fmt.Sprintf(`{"from":%d}`, now-40*minute), []int64{3, four, 2, 1}},
		{"until finds what ended before", fmt.Sprintf(`{"until":%d}`, now-10*minute), []int64{1}},
		{"until as a string with a unit", `{"until":"-1m"}`, []int64{3, 1}},

		{"a limit", `{"limit":2}`, []int64{3, four}},
		{"a limit with an exponent", `{"limit":0.2e1}`, []int64{3, four}},
		{"a limit of 0", `{"limit":0}`, []int64{}},
		{"an offset", `{"offset":3}`, []int64{1}},
		{"an offset behind the end", `{"offset":9}`, []int64{}},
		{"limit and offset in the order of mod_time", strings.Replace(sorted("mod_time", "asc"), "{", `{"limit":2,"offset":1,`, 1), []int64{2, 3}},
		{"the largest limit", `{"limit":20000}`, []int64{3, four, 2, 1}},

		{"a category", filtered(`"categories":["sec.recon"]`), []int64{1}},
		{"one of two categories", filtered(`"categories":["sec.recon","perf.web"]`), []int64{3, 1}},
		{"sec holds what is below it", filtered(`"categories":["sec"]`), []int64{four, 2, 1}},
		{"the deprecated category", filtered(`"category":"perf"`), []int64{3}},
		{"an assignee", filtered(`"assignee":["ada"]`), []int64{1}},
		{"no assignee", filtered(`"assignee":[".none"]`), []int64{3, four}},
		{"the caller as assignee", filtered(`"assignee":[".me"]`), []int64{2}},
		{"a ticket", filtered(`"ticket_id":["T-1"]`), []int64{1}},
		{"a ticket whose id is a number", filtered(`"ticket_id":["3041"]`), []int64{3}},
		{"no ticket", filtered(`"ticket_id":[".none"]`), []int64{four, 2}},
		{"a status", filtered(`"status":["closed"]`), []int64{four, 2}},
		{"no status or new", filtered(`"status":[".none","new"]`), []int64{3, 1}},
		{"a resolution", filtered(`"resolution":["action_taken"]`), []int64{2}},
		{"no resolution", filtered(`"resolution":[".none"]`), []int64{3, 1}},
		{"types", filtered(`"types":["custom.mine","port_scan"]`), []int64{four, 1}},
		{"an unknown type finds nothing", filtered(`"types":["nothing_such"]`), []int64{}},
		{"risk_score_min is inclusive", filtered(`"risk_score_min":61`), []int64{2}},
		{"no risk score is not 0", filtered(`"risk_score_min":0`), []int64{four, 2, 1}},
		{"recommended on a console", filtered(`"recommended":true`), []int64{2}},
		{"an empty list asks for nothing", filtered(`"status":[]`), []int64{3, four, 2, 1}},
		{"filters hold together", filtered(`"status":["closed"],"categories":["sec.command"]`), []int64{2}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			wantIDs(t, c.search(test.body), test.want...)
		})
	}

	t.Run("id_only returns a bare array of ids", func(t *testing.T) {
		got := c.want(http.StatusOK, "POST", "/detections/search", `{"id_only":true,"limit":2}`).body
		assert.Equal(t, got, fmt.Sprintf("[3,%d]", int64(four)))
	})
	t.Run("nothing found is an empty array", func(t *testing.T) {
		for _, idOnly := range []string{"true", "false"} {
			got := c.want(http.StatusOK, "POST", "/detections/search", `{"mod_time":0,"id_only":`+idOnly+`}`).body
			assert.Equal(t, got, "[]")
		}
	})
}

func sorted(fields ...string) string {
	var sort []string
	for pair := range slices.Chunk(fields, 2) {
		direction := "asc"
		if len(pair) == 2 {
			direction = pair[1]
		}
		sort = append(sort, fmt.Sprintf(`{"field":%q,"direction":%q}`, pair[0], direction))
	}
	return `{"sort":[` + strings.Join(sort, ",") + `]}`
}

func filtered(fields string) string { return `{"filter":{` + fields + `}}` }

func TestSearchRefusesWhatTheInterfaceDoesNotHave(t *testing.T) {
	_, c := serve(t, standin.Options{})
	tests := []struct{ name, body string }{
		{"an unknown field", `{"mod_tiem":1}`},
		{"an unknown field of the filter", filtered(`"severity":["high"]`)},
		{"an unknown status", filtered(`"status":["open"]`)},
		{"an unknown category", filtered(`"categories":["sec.none_such"]`)},
		{"recommended on a sensor", filtered(`"recommended":true`)},
		{"a limit over 20000", `{"limit":20001}`},
		{"a limit that is a fraction", `{"limit":1.5}`},
		{"an offset beyond 64 bits", `{"offset":92233720368547758080}`},
		{"a risk score beyond every number", filtered(`"risk_score_min":1e999`)},
		{"a time beyond 64 bits", `{"mod_time":92233720368547758080}`},
		{"a time that is a fraction", `{"from":0.5}`},
		{"a sort by an unknown field", sorted("colour", "asc")},
		{"a time that is none", `{"mod_time":"yesterday"}`},
		{"a time with a unit that is none", `{"mod_time":"-3q"}`},
		{"a positive time with a unit", `{"mod_time":"30m"}`},
		{"a body that is no object", `[]`},
		{"a body that is cut", `{"limit":1`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := c.want(http.StatusBadRequest, "POST", "/detections/search", test.body)
			assert.Contains(t, got.body, `"error_message"`, "the body is")
		})
	}
}

func TestInclusiveBound(t *testing.T) {
	a, c := serve(t, standin.Options{})
	a.Add(someDetections()...)
	a.SetHazards(standin.Hazards{InclusiveBound: true})
	for name, body := range map[string]string{
		"in the default order":     `{"mod_time":%d}`,
		"in the order of mod_time": strings.Replace(sorted("mod_time", "asc", "id", "asc"), "{", `{"mod_time":%d,`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			got := c.search(fmt.Sprintf(body, now-5*minute))
			slices.Sort(got)
			wantIDs(t, got, 2, 3, four)
		})
	}
}

// Walking page by page finds what one look at everything finds, in every order.
func TestPagesFitTogether(t *testing.T) {
	a, c := serve(t, standin.Options{Seed: 7, Size: 1000})
	a.AddBacklog(80, time.Minute)
	a.AddTied(60, now-100)
	a.AddTied(60, now-101)
	a.AddLate(30 * time.Second)
	for _, sort := range []string{
		sorted("mod_time", "asc", "id", "asc"), sorted("mod_time", "asc"),
		sorted("mod_time", "desc", "id", "desc"), sorted("risk_score", "desc"), `{}`,
	} {
		t.Run(sort, func(t *testing.T) {
			with := func(limit, offset int) string {
				comma := ","
				if sort == "{}" {
					comma = ""
				}
				return strings.Replace(sort, "{", fmt.Sprintf(`{"limit":%d,"offset":%d%s`, limit, offset, comma), 1)
			}
			whole := c.search(with(1000, 0))
			var pages []int64
			for offset := 0; offset < len(whole); offset += 37 {
				pages = append(pages, c.search(with(37, offset))...)
			}
			wantIDs(t, pages, whole...)
		})
	}
}

func TestSortByEveryField(t *testing.T) {
	a, c := serve(t, standin.Options{Seed: 5})
	a.AddMany(30)
	for field := range c.detection(fmt.Sprint(a.Latest()[0].ID)) {
		up, down := c.search(sorted(field, "asc", "id", "asc")), c.search(sorted(field, "desc", "id", "desc"))
		slices.Reverse(down)
		assert.True(t, len(up) == 30 && slices.Equal(up, down), "by", field, "the order", up, "and reversed", down)
	}
}
