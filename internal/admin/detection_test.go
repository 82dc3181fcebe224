package admin_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/admin"
	"ndrbridge/test/assert"
)

func TestDetection(t *testing.T) {
	c := newControl(t)
	client, server := serve(t, c)
	at := time.Unix(1000, 0).UTC()
	const id = 1<<53 + 1 // beyond the precision of JavaScript's numbers
	c.detection = admin.Detection{
		Seen: &admin.SeenDetection{ModTime: at, Fields: json.RawMessage(`{"ticket_id":"SEC-1"}`)},
		Versions: []admin.DetectionVersion{{Seq: 7, Event: event(t, 7, `{"detection":{"id":9007199254740993}}`).Structured(), Journalled: true, Sinks: []admin.DetectionDelivery{
			{Sink: "lake", Result: admin.ResultDeadLetter, Key: "a/b", Class: "rejected", Reason: "422 <no>"},
			{Sink: "soc", Result: admin.ResultDelivered},
		}}},
		SearchedSince: at, WholeJournal: true, Commands: []admin.TicketCommand{},
	}
	got, err := admin.API.GetDetection.Call(t.Context(), client, admin.DetectionRequest{Appliance: "hq", ID: id})
	assert.True(t, err == nil && reflect.DeepEqual(got, c.detection) && got.ID == id, got, err, c.detection)
	_, err = admin.API.GetDetection.Call(t.Context(), client, admin.DetectionRequest{Appliance: "h/q", ID: id})
	assert.ErrorIs(t, err, admin.ErrUnknown)
	t.Run("lists are never null", func(t *testing.T) {
		c.detection = admin.Detection{}
		_, body := request(t, http.MethodGet, server.URL+"/api/v1/appliances/hq/detections/1", "", token)
		assert.True(t, strings.Contains(body, `"versions":[]`) && strings.Contains(body, `"commands":[]`), body)
	})
	for _, id := range []string{"x", "-1", "1.5", "99999999999999999999"} {
		t.Run(id+" is refused", func(t *testing.T) {
			answer, body := request(t, http.MethodGet, server.URL+"/api/v1/appliances/hq/detections/"+id, "", token)
			checkProblem(t, answer, body, http.StatusBadRequest, `is not the id of a detection`)
		})
	}
}
