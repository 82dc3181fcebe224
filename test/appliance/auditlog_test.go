package appliance_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func (c *caller) auditLog(query string) []int64 {
	c.t.Helper()
	return idsOf(c.t, c.want(http.StatusOK, "GET", "/auditlog"+query, "").body)
}

func TestAuditLog(t *testing.T) {
	for name, c := range map[string]struct {
		options standin.Options
		change  func(a *standin.Appliance)
		query   string
		want    []int64
	}{
		"the newest entry comes first":         {want: []int64{5, 4, 3, 2, 1}},
		"or the oldest":                        {options: standin.Options{AuditOldestFirst: true}, want: []int64{1, 2, 3, 4, 5}},
		"a limit may have an exponent":         {query: "?limit=2e0", want: []int64{5, 4}},
		"a limit and an offset cut a page out": {query: "?limit=2&offset=1", want: []int64{4, 3}},
		"oldest first, too":                    {options: standin.Options{AuditOldestFirst: true}, query: "?limit=2&offset=1", want: []int64{2, 3}},
		"there is nothing behind the end":      {query: "?limit=2&offset=9", want: []int64{}},
		"a server may cap the limit": {change: func(a *standin.Appliance) { a.SetHazards(standin.Hazards{LimitCap: 2}) },
			query: "?limit=4", want: []int64{5, 4}},
		"a full log drops its oldest entries": {options: standin.Options{AuditCapacity: 3}, want: []int64{5, 4, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			a, caller := serve(t, c.options)
			a.AddAudit(5)
			if c.change != nil {
				c.change(a)
			}
			wantIDs(t, caller.auditLog(c.query), c.want...)
		})
	}
	t.Run("the history holds what is gone", func(t *testing.T) {
		a, _ := serve(t, standin.Options{AuditCapacity: 1})
		a.AddAudit(3)
		assert.Equal(t, len(a.AuditHistory()), 3, "entries of the history")
	})
	t.Run("a body can be anything", func(t *testing.T) {
		a, _ := serve(t, standin.Options{})
		for _, body := range []any{nil, "text", []int{1}, map[string]int{"a": 1}} {
			a.AddAuditBody(body)
		}
		var entries []struct{ Body json.RawMessage }
		w := httptest.NewRecorder() // the description knows no such bodies
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/api/v1/auditlog", nil)
		r.Header.Set("Authorization", "Service apikey="+standin.DefaultAPIKey)
		a.ServeHTTP(w, r)
		err := json.Unmarshal(w.Body.Bytes(), &entries)
		assert.True(t, err == nil && len(entries) == 4 && string(entries[3].Body) == "null", entries, err)
	})
	t.Run("what clients do leaves entries unless they are switched off", func(t *testing.T) {
		for _, off := range []bool{false, true} {
			a, caller := serve(t, standin.Options{
				NoAuditAPI: off, User: "bridge", APIKey: standin.DefaultAPIKey,
				OAuth: &standin.OAuth{ClientID: "id", ClientSecret: "secret"},
			})
			d := a.Generate()
			d.TicketID = standin.TicketID{ID: "T-1"}
			id := a.Add(d)[0].ID
			status, body := caller.token("id", "secret", grant)
			require.Equal(t, status, http.StatusOK, "no token", body)
			caller.want(http.StatusNoContent, "PATCH", "/detections/"+mustJSON(t, id), `{"status": "acknowledged"}`)
			caller.want(http.StatusNoContent, "PATCH", "/detections/tickets", `{"ticket_id": "T-1", "status": "new"}`)
			caller.want(http.StatusUnprocessableEntity, "PATCH", "/detections/"+mustJSON(t, id), `{"participants": [{"id": 0}]}`)
			var entries []struct {
				Body struct{ Operation, User string }
			}
			require.NoError(t, json.Unmarshal([]byte(caller.want(http.StatusOK, "GET", "/auditlog", "").body), &entries))
			var got []string
			for _, e := range entries {
				got = append(got, e.Body.Operation+" by "+e.Body.User)
			}
			var want []string
			if !off {
				want = []string{"Modify by bridge", "Modify by bridge", "Login by bridge"}
			}
			assert.EqualSlices(t, got, want, "the log holds")
		}
	})
	t.Run("a query that is none is refused", func(t *testing.T) {
		_, caller := serve(t, standin.Options{})
		for _, query := range []string{"?limit=x", "?offset=-1", "?limit=1.5", "?limit=2147483648", "?from=1"} {
			caller.want(http.StatusBadRequest, "GET", "/auditlog"+query, "")
		}
	})
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b := require.Value(json.Marshal(v))(t)
	return string(b)
}
