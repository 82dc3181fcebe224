package transform_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

func TestAFollowUpHasASummary(t *testing.T) {
	for _, test := range []struct{ name, kind, member, value, want string }{
		{"hidden by a rule", "hidden", "visibility", `{"explanation":"no longer shown: hidden by rule 12"}`, "no longer shown: hidden by rule 12"},
		{"gone without an explanation", "gone", "visibility", `{}`, "no longer shown"},
		{"shown again without an explanation", "shown", "visibility", `{"explanation":7}`, "shown again"},
		{"noted", "noted", "note", `{"text":"Isolate it.\nNow.","author":"ada"}`, "noted by ada: Isolate it.\nNow."},
		{"noted by nobody", "noted", "note", `{"text":"Isolate it.","author":null}`, "noted: Isolate it."},
		{"noted, with the text redacted", "noted", "note", `{"author":"ada"}`, "noted by ada"},
		{"a long note", "noted", "note", `{"text":"` + strings.Repeat("é", 1000) + `"}`, "noted: " + strings.Repeat("é", 496) + "…"},
		{"the context of devices", "context", "context",
			`{"devices":[{"id":9007199254740993},{"id":2,"name":"files-3","critical":true,"on_watchlist":true,"tags":["Finance"],"groups":["HQ"]},{"id":3,"ipaddr":"192.0.2.3","tags":[]}]}`,
			"context: device 9007199254740993; files-3 (critical, on the watchlist, Finance, HQ); 192.0.2.3"},
		{"the context of no device", "context", "context", `{"devices":null}`, "context"},
		{"some of the evidence", "evidence", "evidence", `{"total":2417,"records":[{},{}]}`, "evidence: 2 of 2417 records"},
		{"all of the evidence", "evidence", "evidence", `{"total":2,"records":[{},{}]}`, "evidence: 2 records"},
		{"one record", "evidence", "evidence", `{"total":1,"records":[{}]}`, "evidence: 1 record"},
		{"evidence of another type", "evidence", "evidence", `[1]`, "evidence: 0 records"},
		{"a kind of a later release", "moved", "to", `"hq"`, "moved"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := require.Value(transform.Encoder{Appliance: "hq"}.FollowUp(transform.FollowUp{
				Kind: test.kind, Key: "1", Detection: transform.Remembered(7, 0, 0, nil), Name: test.member, Value: json.RawMessage(test.value), Recorded: time.Unix(1773480000, 0),
			}))(t)
			assert.Equal(t, e.FollowUpSummary(), test.want)
		})
	}
	d := require.Value(transform.ParseDetection([]byte(`{"id":7,"mod_time":1773480412000}`), false))(t)
	version := require.Value(transform.Encoder{Appliance: "hq"}.Detection(d, transform.Observation{}))(t)
	assert.Equal(t, version.FollowUpSummary(), "", "of a version")
	assert.Equal(t, version.ContextSummary(), "", "of a version without a context")
}
