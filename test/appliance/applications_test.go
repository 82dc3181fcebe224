package appliance_test

import (
	"fmt"
	"slices"
	"testing"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
)

func TestApplicationActivity(t *testing.T) {
	_, c := serve(t, standin.Options{})
	var ids []float64
	for _, application := range c.objects("/applications") {
		activity := c.objects(fmt.Sprintf("/applications/%v/activity", application["id"]))
		assert.True(t, len(activity) != 0, application, "has no activity")
		for _, a := range activity {
			ids = append(ids, a["id"].(float64))
			assert.Equal(t, a["application_id"], application["id"], "the activity of", "is that of")
			from, until := a["from_time"].(float64), a["until_time"].(float64)
			assert.True(t, from < until && until <= float64(epoch.UnixMilli()), "the activity is from", from, "until", until)
		}
	}
	assert.Equal(t, len(ids), len(slices.Compact(slices.Sorted(slices.Values(ids)))), "two records have one id", ids)
	c.want(404, "GET", "/applications/11/activity", "")
}
