package admin_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/admin"
	"ndrbridge/test/assert"
)

func TestDeadLettersAreGrouped(t *testing.T) {
	c := newControl(t)
	c.journal(t, 3, `{"detection":{"title":"Port scan"}}`)
	c.deliver(t, 3)
	c.sourceDead(t, dns,
		checkpoint.DeadLetter{Key: "a", Class: "invalid", Reason: "record 7: no timestamp", Time: time.Unix(9, 0), Body: []byte(`{"title": "x"}`)},
		checkpoint.DeadLetter{Key: "b", Class: "invalid", Reason: "record 12: no timestamp", Time: time.Unix(5, 0), Body: []byte(`1`)},
		checkpoint.DeadLetter{Key: "c", Class: "too_large", Reason: "record 12: no timestamp", Time: time.Unix(7, 0)},
	)
	client, server := serve(t, c)
	got, err := admin.API.GroupDeadLetters.Call(t.Context(), client, admin.GroupsRequest{OfDead: ofDNS})
	want := admin.DeadGroups{Total: 3, Groups: []admin.DeadGroup{
		{Appliance: "hq", Stream: "records/dns", Class: "invalid", Reason: "record <number>: no timestamp", Count: 2, First: time.Unix(5, 0).UTC(), Last: time.Unix(9, 0).UTC(), Key: "a"},
		{Appliance: "hq", Stream: "records/dns", Class: "too_large", Reason: "record <number>: no timestamp", Count: 1, First: time.Unix(7, 0).UTC(), Last: time.Unix(7, 0).UTC(), Key: "c"},
	}}
	assert.NoError(t, err)
	assert.DeepEqual(t, got, want)
	got, err = admin.API.GroupDeadLetters.Call(t.Context(), client, admin.GroupsRequest{OfDead: ofLake})
	assert.True(t, err == nil && len(got.Groups) == 1 && got.Groups[0].Sink == "lake" && got.Groups[0].Reason == "422 <no>", got, err)
	for _, test := range []struct {
		owner      admin.OfDead
		key, title string
	}{{ofLake, checkpoint.DeadKey(1), "Port scan"}, {ofDNS, "a", "x"}, {ofDNS, "b", ""}} {
		d, err := admin.API.GetDeadLetter.Call(t.Context(), c.client(), admin.OfDeadLetter{OfDead: test.owner, Key: test.key})
		got := d.Title
		assert.True(t, err == nil && got == test.title, test.key, "has the title", got, err, test.title)
	}
	for query, status := range map[string]int{
		"": 200, "?sink=lake": 200, "?appliance=hq&stream=records/dns": 200, "?sink=none": 404,
		"?appliance=hq": 400, "?stream=audit": 400, "?sink=lake&stream=audit": 400,
	} {
		answer, body := request(t, http.MethodGet, server.URL+"/api/v1/dead"+query, "", token)
		assert.Equal(t, answer.StatusCode, status, query, answer.Status, body)
	}
}

func TestDeadLettersBeyondTheGroups(t *testing.T) {
	var grouping admin.DeadGrouping
	lake := checkpoint.SinkOwner("lake")
	letters := func(kind string) string { // without a digit
		return strings.Map(func(r rune) rune { return r - '0' + 'a' }, kind)
	}
	for i := range 700 {
		for n := range 3 {
			grouping.AddTotal(1)
			grouping.Add(lake, checkpoint.DeadLetter{Key: fmt.Sprint(i, n), Reason: letters(fmt.Sprint(i)), Time: time.Unix(int64(n), 0)})
		}
	}
	got := grouping.Groups()
	assert.True(t, len(got.Groups) == 500 && got.Total == 2100 && got.Ungrouped == 600, len(got.Groups), "groups", got.Ungrouped, got.Total, "in none")
	key := got.Groups[0].Key
	assert.True(t, strings.HasSuffix(key, " 2"), "example", key, "want the newest")
}
