package appliance_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestRecordsLookLikeRecords(t *testing.T) {
	a, c := serve(t, standin.Options{Product: "Acme"})
	c.authorization = strings.Replace(c.authorization, "Service", "Acme", 1)
	micros := (epoch.UnixMilli()-1000)*1000 + 201
	shown := a.AddRecordsAt(40, micros)
	types := make(map[string]int)
	for _, r := range shown {
		types[r.Type]++
		var object struct {
			ID     string        `json:"_id"`
			Index  string        `json:"_index"`
			Type   string        `json:"_type"`
			Sort   []json.Number `json:"sort"`
			Source struct {
				Timestamp  json.Number
				FlowID     string `json:"flowId"`
				ClientAddr struct{ Type, Value string }
			} `json:"_source"`
		}
		require.NoError(t, json.Unmarshal(r.JSON, &object))
		s := object.Source
		switch {
		case object.ID != r.ID || object.Index != "acme-11-2026-3-4-0" || object.Index != r.Index || object.Type != r.Type:
			t.Errorf("%s is not %+v", r.JSON, r)
		case len(object.Sort) != 1 || object.Sort[0] != s.Timestamp || !strings.HasSuffix(s.Timestamp.String(), ".201") || r.Micros != micros:
			t.Errorf("%s has other times than %d", r.JSON, micros)
		case s.FlowID == "" || s.ClientAddr.Type != "ipaddr4" || s.ClientAddr.Value == "":
			t.Errorf("%s lacks something", r.JSON)
		}
		for _, number := range []string{`"rspBytes":90[0-9]{14}\b`, `"processingTime":[0-9]+\.[0-9]{2}0\b`, `"roundTripTime":0\.250\b`} {
			assert.True(t, regexp.MustCompile(number).Match(r.JSON), string(r.JSON), "has no", number)
		}
	}
	assert.Equal(t, len(types), 4, "the types are", types)
	t.Run("their clients are devices", func(t *testing.T) {
		for _, r := range shown[:5] {
			var object struct {
				Source struct {
					Client     struct{ Value []string }
					ClientAddr struct{ Value string }
				} `json:"_source"`
			}
			require.NoError(t, json.Unmarshal(r.JSON, &object))
			for field, value := range map[string]string{"discovery_id": object.Source.Client.Value[0], "ipaddr": object.Source.ClientAddr.Value} {
				body := fmt.Sprintf(`{"filter":{"field":%q,"operator":"=","operand":%q}}`, field, value)
				found := idsOf(t, c.want(http.StatusOK, "POST", "/devices/search", body).body)
				assert.Equal(t, len(found), 1, "the devices with the", field, value, found)
			}
		}
	})
	t.Run("they come as they are", func(t *testing.T) {
		body := c.want(http.StatusOK, "POST", "/records/search", `{"from": "-1h"}`).body
		for _, r := range shown {
			assert.Contains(t, body, string(r.JSON), r.JSON, "is not shown")
		}
	})
}

func TestTheHistoryOfRecordsSaysWhenEachBecameVisible(t *testing.T) {
	a, _ := serve(t, standin.Options{})
	a.AddRecords(2)
	a.SetSkew(time.Minute)
	late := a.AddRecordsAt(1, epoch.Add(-time.Hour).UnixMicro())[0]
	history := a.RecordHistory()
	assert.True(t, len(history) == 3 && history[2] == late && history[0].StoredAt == now && late.StoredAt == now+minute, history)
}
