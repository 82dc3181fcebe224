package jira

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

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
		"id": "10000", "key": s.o.Project, "name": "Security",
		"issueTypes": []map[string]any{{"name": "Task", "subtask": false}, {"name": "Bug", "subtask": false}, {"name": "Incident", "subtask": false}},
	})
}

// statuses returns the statuses of the project by its issue types.
func (s *Server) statuses(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("key") != s.o.Project {
		refuse(w, http.StatusNotFound, "No project could be found with key '"+r.PathValue("key")+"'.", nil)
		return
	}
	types := []any{}
	for n, name := range []string{"Task", "Bug", "Incident"} {
		types = append(types, map[string]any{"id": strconv.Itoa(10001 + n), "name": name, "subtask": false, "statuses": statuses("id")})
	}
	ticketserver.Answer(w, http.StatusOK, types)
}

// statuses lists the statuses of the workflow with their numbers in some fields.
func statuses(fields ...string) (all []any) {
	for n, status := range workflow {
		one := map[string]any{"name": status.Name, "statusCategory": status.Category}
		for _, field := range fields {
			one[field] = strconv.Itoa(n + 1)
		}
		all = append(all, one)
	}
	return all
}

// workflows returns the workflow of a project and an issue type.
func (s *Server) workflows(w http.ResponseWriter, r *http.Request) {
	var body struct {
		ProjectAndIssueTypes []struct {
			ProjectID   string `json:"projectId"`
			IssueTypeID string `json:"issueTypeId"`
		} `json:"projectAndIssueTypes"`
	}
	switch {
	case !read(w, r, &body):
		return
	case s.o.ReadOnly:
		refuse(w, http.StatusForbidden, "You do not have permission to view workflows.", nil)
		return
	case len(body.ProjectAndIssueTypes) != 1 || body.ProjectAndIssueTypes[0].ProjectID != "10000" || body.ProjectAndIssueTypes[0].IssueTypeID != "10001":
		refuse(w, http.StatusBadRequest, "The project or the issue type is not valid.", nil)
		return
	}
	offered := []any{}
	for _, t := range transitions {
		to := slices.IndexFunc(workflow, func(w Status) bool { return w.Name == t.to })
		offered = append(offered, map[string]any{"id": t.id, "name": t.name, "type": "DIRECTED", "toStatusReference": strconv.Itoa(to + 1)})
	}
	ticketserver.Answer(w, http.StatusOK, map[string]any{
		"statuses":  statuses("id", "statusReference"),
		"workflows": []any{map[string]any{"id": "w-1", "name": "Security", "transitions": offered}},
	})
}

// people are the users of the site.
var people = map[string]string{"a-1": "Ana Ops", "a-2": "Ben Ops"}

// users returns users by their accounts.
func (s *Server) users(w http.ResponseWriter, r *http.Request) {
	found := []any{}
	for _, account := range r.URL.Query()["accountId"] {
		if name := people[account]; name != "" {
			found = append(found, map[string]any{"accountId": account, "displayName": name, "active": true})
		}
	}
	ticketserver.Answer(w, http.StatusOK, map[string]any{"values": found, "isLast": true})
}

// permissions returns the requested permissions of the account.
func (s *Server) permissions(w http.ResponseWriter, r *http.Request) {
	asked := map[string]any{}
	for key := range strings.SplitSeq(r.URL.Query().Get("permissions"), ",") {
		if !slices.Contains([]string{"CREATE_ISSUES", "ADD_COMMENTS", "TRANSITION_ISSUES", "ASSIGN_ISSUES"}, key) {
			refuse(w, http.StatusBadRequest, "The permission '"+key+"' is not valid.", nil)
			return
		}
		has := r.URL.Query().Get("projectKey") == s.o.Project && !s.o.ReadOnly && !slices.Contains(s.o.Lacks, key)
		asked[key] = map[string]any{"key": key, "havePermission": has}
	}
	ticketserver.Answer(w, http.StatusOK, map[string]any{"permissions": asked})
}
