package servicenow

import (
	"net/http"
	"slices"
	"strings"

	"ndrbridge/test/ticketserver"
)

// states are the choices of the column state.
var states = []map[string]string{
	{"name": "task", "value": "3", "label": "Closed Complete"},
	{"name": "incident", "value": "1", "label": "New"}, {"name": "incident", "value": "2", "label": "In Progress"},
	{"name": "incident", "value": "3", "label": "On Hold"}, {"name": "incident", "value": "6", "label": "Resolved"},
	{"name": "incident", "value": "7", "label": "Closed"}, {"name": "incident", "value": "8", "label": "Canceled"},
}

// roles are the account's rows of sys_user_has_role.
func (s *Server) roles() (rows []map[string]string) {
	for _, role := range s.o.Roles {
		rows = append(rows, map[string]string{"role.name": role})
	}
	return rows
}

// lookUp answers one query of a table.
func (s *Server) lookUp(query string, rows []map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if got := r.URL.Query().Get("sysparm_query"); got != query {
			refuse(w, http.StatusBadRequest, "Invalid query detected", got)
			return
		}
		ticketserver.Answer(w, http.StatusOK, map[string]any{"result": append([]map[string]string{}, rows...)})
	}
}

// users answers a query of users by their sys_ids.
func (s *Server) users(w http.ResponseWriter, r *http.Request) {
	ids, ok := strings.CutPrefix(r.URL.Query().Get("sysparm_query"), "sys_idIN")
	if !ok {
		refuse(w, http.StatusBadRequest, "Invalid query detected", ids)
		return
	}
	found := []map[string]string{}
	for id := range strings.SplitSeq(ids, ",") {
		if slices.Contains(users, id) {
			found = append(found, map[string]string{"sys_id": id, "name": "Ops " + id})
		}
	}
	ticketserver.Answer(w, http.StatusOK, map[string]any{"result": found})
}
