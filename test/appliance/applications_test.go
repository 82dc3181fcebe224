package appliance_test

import (
	"fmt"
	"slices"
	"testing"

	standin "ndrbridge/test/appliance"
)

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
