package jira

import (
	"net/http"

	"ndrbridge/test/ticketserver"
)

// myself returns the account.
func (s *Server) myself(w http.ResponseWriter, _ *http.Request) {
	ticketserver.Answer(w, http.StatusOK, map[string]any{"accountId": s.o.Account, "emailAddress": s.o.Email, "displayName": "The bridge", "active": true})
}

// project returns the project.
func (s *Server) project(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("key") != s.o.Project {
		refuse(w, http.StatusNotFound, "No project could be found with key '"+r.PathValue("key")+"'.", nil)
		return
	}
	ticketserver.Answer(w, http.StatusOK, map[string]any{
		"key": s.o.Project, "name": "Security", "issueTypes": []map[string]any{{"name": "Task", "subtask": false}, {"name": "Bug", "subtask": false}, {"name": "Incident", "subtask": false}},
	})
}

// permissions returns the requested permissions of the account.
func (s *Server) permissions(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("permissions") != "CREATE_ISSUES" {
		refuse(w, http.StatusBadRequest, "The query parameter 'permissions' is required.", nil)
		return
	}
	ticketserver.Answer(w, http.StatusOK, map[string]any{"permissions": map[string]any{
		"CREATE_ISSUES": map[string]any{"key": "CREATE_ISSUES", "havePermission": r.URL.Query().Get("projectKey") == s.o.Project && !s.o.ReadOnly},
	}})
}
