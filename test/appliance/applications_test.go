package appliance_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	standin "ndrbridge/test/appliance"
)

func TestApplicationsAreFound(t *testing.T) {
	_, c := serve(t, standin.Options{})
	third := c.objects("/applications")[2]
	discovery, id := third["discovery_id"].(string), third["service_id"].(string)
	end := int64(0) // of the activity of the last application
	for _, activity := range c.objects("/applications/10/activity") {
		end = max(end, int64(activity["until_time"].(float64)))
	}
	for name, test := range map[string]struct{ query, want string }{
		"all":                                     {"", "[1 2 3 4 5 6 7 8 9 10]"},
		"a part of a name in another case":        {"search_type=name&value=SH", "[2 6]"},
		"a part of a name in any field":           {"value=web", "[2]"},
		"a name by an expression":                 {"search_type=name&value=" + url.QueryEscape("/^(Web|Pay)/"), "[2 8]"},
		"an expression keeps the case":            {"search_type=name&value=" + url.QueryEscape("/^web/"), "[]"},
		"the sensor":                              {"search_type=node&value=3", "[4 5 9]"},
		"this appliance":                          {"search_type=node&value=0", "[1 2 3 6 10]"},
		"the sensor by its UUID":                  {"search_type=node&value=5e5c0000-0000-4000-8000-000000000006", "[7 8]"},
		"an identifier":                           {"search_type=service-id&value=" + id, "[3]"},
		"an identifier must be whole":             {"search_type=service-id&value=" + id[:4], "[]"},
		"an identifier by an expression":          {"search_type=service-id&value=" + url.QueryEscape("/^"+id[:4]+"/"), "[3]"},
		"the id of the discovery":                 {"search_type=discovery_id&value=" + discovery, "[3]"},
		"the id of the discovery in any field":    {"search_type=any&value=" + discovery, "[3]"},
		"no value":                                {"search_type=name", "[1 2 3 4 5 6 7 8 9 10]"},
		"a page":                                  {"limit=3&offset=4", "[5 6 7]"},
		"a page behind the last":                  {"limit=3&offset=9007199254740991", "[]"},
		"a page with a number in another form":    {"limit=1e0&offset=1.0", "[2]"},
		"an empty page":                           {"limit=0", "[]"},
		"what was active in the last half hour":   {"active_from=-30m", "[1 2 3 4 5 6 7 8 9]"},
		"what was active a minute ago":            {"active_from=-60000&active_until=0", "[1 2 3 4 5 6 7 8 9]"},
		"what was active when one ended":          {fmt.Sprintf("active_from=%d&active_until=%d", end, end), "[1 2 3 4 5 6 7 8 9 10]"},
		"what was active before all began":        {"active_until=1000", "[]"},
		"what was active before a part had begun": {"active_until=1644591390000", "[1 2 3]"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.idsAt("/applications?" + test.query); got != test.want {
				t.Errorf("%s are found, want %s", got, test.want)
			}
		})
	}
	for _, query := range []string{
		"search_type=vendor", "limit=-1", "limit=all", "active_from=yesterday", "active_from=0&active_until=-1h",
		"value=" + url.QueryEscape("/(/"), "value=" + url.QueryEscape("/a{900}b{900}c{900}/"), "value=" + strings.Repeat("a", 501),
	} {
		c.want(400, "GET", "/applications?"+query, "")
	}
}

func TestApplicationActivity(t *testing.T) {
	_, c := serve(t, standin.Options{})
	var ids []float64
	for _, application := range c.objects("/applications") {
		activity := c.objects(fmt.Sprintf("/applications/%v/activity", application["id"]))
		if len(activity) == 0 {
			t.Errorf("%v has no activity", application["display_name"])
		}
		for _, a := range activity {
			ids = append(ids, a["id"].(float64))
			if a["application_id"] != application["id"] {
				t.Errorf("the activity of %v is that of %v", application["id"], a["application_id"])
			}
			if from, until := a["from_time"].(float64), a["until_time"].(float64); from >= until || until > float64(epoch.UnixMilli()) {
				t.Errorf("the activity is from %v until %v", from, until)
			}
		}
	}
	if n := len(ids); n != len(slices.Compact(slices.Sorted(slices.Values(ids)))) {
		t.Errorf("two records have one id: %v", ids)
	}
	c.want(404, "GET", "/applications/11/activity", "")
}
