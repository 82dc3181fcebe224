// Package redmine implements a stand-in for Redmine 5 for tests: the part of its REST API needed to
// create, find and change issues of one project, with the answers of the original.
package redmine

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"ndrbridge/test/ticketserver"
)

// Options configures a Server.
type Options struct {
	Key     string // the API key of the only account
	Project string // the identifier of the project
	// Lacks are permissions that the account's role does not have.
	Lacks []string
	// Outside means that the account is not a member of the project, and Admin that it is an
	// administrator's.
	Outside, Admin bool
	// Crowd is how many members the project has beside the account and Members.
	Crowd int
	Now   func() time.Time
}

// Server is a server of Redmine. It is an http.Handler and safe for concurrent use.
type Server struct {
	*ticketserver.Tickets
	o   Options
	mux *http.ServeMux
}

// status is a status of issues; its id is the index in statuses, plus one.
type status struct {
	name   string
	closed bool
}

var statuses = []status{{"New", false}, {"In Progress", false}, {"Resolved", false}, {"Feedback", false}, {"Closed", true}, {"Rejected", true}}

// Members are the ids of the users that an issue can be assigned to.
var Members = []string{"6", "7"}

// named returns the id of a status as Redmine shows it.
func named(name string) int {
	return slices.IndexFunc(statuses, func(s status) bool { return s.name == name }) + 1
}

func shown(id int) map[string]any {
	return map[string]any{"id": id, "name": statuses[id-1].name, "is_closed": statuses[id-1].closed}
}

// New returns a server without issues.
func New(o Options) *Server {
	s := &Server{Tickets: &ticketserver.Tickets{Initial: "New", Now: o.Now}, o: o, mux: http.NewServeMux()}
	s.mux.HandleFunc("GET /users/current.json", s.account)
	s.mux.HandleFunc("GET /roles/{file}", s.role)
	s.mux.HandleFunc("GET /issue_statuses.json", func(w http.ResponseWriter, _ *http.Request) {
		ticketserver.Answer(w, http.StatusOK, map[string]any{"issue_statuses": allStatuses()})
	})
	s.mux.HandleFunc("GET /projects/{project}/memberships.json", s.memberships)
	s.mux.HandleFunc("GET /projects/{file}", s.project)
	s.mux.HandleFunc("POST /issues.json", s.create)
	s.mux.HandleFunc("GET /issues.json", s.search)
	s.mux.HandleFunc("GET /issues/{file}", s.show)
	s.mux.HandleFunc("PUT /issues/{file}", s.update)
	return s
}

// ServeHTTP implements http.Handler. It serves only the account of the key.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Redmine-API-Key") != s.o.Key {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	s.mux.ServeHTTP(w, r)
}

func refuse(w http.ResponseWriter, errors ...string) {
	ticketserver.Answer(w, http.StatusUnprocessableEntity, map[string]any{"errors": errors})
}

// allStatuses returns the statuses as Redmine shows them.
func allStatuses() (all []any) {
	for n := range statuses {
		all = append(all, shown(n+1))
	}
	return all
}

// manager is the role of all members.
var manager = map[string]any{"id": 3, "name": "Manager"}

func (s *Server) account(w http.ResponseWriter, r *http.Request) {
	user := map[string]any{"id": 5, "login": "ndrbridge", "admin": s.o.Admin}
	if r.URL.Query().Get("include") == "memberships" {
		memberships := []any{map[string]any{"project": map[string]any{"id": 8, "name": "NOC"}, "roles": []any{map[string]any{"id": 9, "name": "Guest"}}}}
		if !s.o.Outside {
			inherited := map[string]any{"id": 3, "name": "Manager", "inherited": true}
			memberships = append(memberships, map[string]any{"project": map[string]any{"id": 1, "name": "SOC"}, "roles": []any{manager, inherited}})
		}
		user["memberships"] = memberships
	}
	ticketserver.Answer(w, http.StatusOK, map[string]any{"user": user})
}

func (s *Server) role(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("file") != "3.json" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	permissions := []string{"view_issues", "add_issues", "edit_issues", "edit_own_issues", "add_issue_notes"}
	permissions = slices.DeleteFunc(permissions, func(p string) bool { return slices.Contains(s.o.Lacks, p) })
	ticketserver.Answer(w, http.StatusOK, map[string]any{"role": map[string]any{"id": 3, "name": "Manager", "permissions": permissions}})
}

func (s *Server) memberships(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("project") != s.o.Project {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	all := []any{}
	add := func(kind string, id int, name string) {
		all = append(all, map[string]any{"id": len(all) + 1, kind: map[string]any{"id": id, "name": name}, "roles": []any{manager}})
	}
	add("user", 5, "The Bridge")
	add("group", 10, "Analysts")
	for n := range s.o.Crowd {
		add("user", 100+n, "Another")
	}
	for _, member := range Members {
		id, _ := strconv.Atoi(member)
		add("user", id, "User "+member)
	}
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil || limit < 1 {
		limit = 25
	}
	offset, _ := strconv.Atoi(r.URL.Query().Get("offset"))
	page := all[min(offset, len(all)):]
	ticketserver.Answer(w, http.StatusOK, map[string]any{"memberships": page[:min(limit, 100, len(page))], "total_count": len(all)})
}

func (s *Server) project(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("file") != s.o.Project+".json" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	ticketserver.Answer(w, http.StatusOK, map[string]any{"project": map[string]any{
		"id": 1, "name": "SOC", "identifier": s.o.Project, "trackers": []any{map[string]any{"id": 1, "name": "Bug"}, map[string]any{"id": 3, "name": "Support"}},
	}})
}

// attributes are the attributes of an issue that a client sets. Others, which the original ignores,
// are refused.
type attributes struct {
	ProjectID   string `json:"project_id"`
	TrackerID   string `json:"tracker_id"`
	PriorityID  string `json:"priority_id"`
	CategoryID  string `json:"category_id"`
	Subject     string `json:"subject"`
	Description string `json:"description"`
	StatusID    string `json:"status_id"`
	AssignedTo  string `json:"assigned_to_id"`
	DoneRatio   string `json:"done_ratio"`
	Notes       string `json:"notes"`
}

func decode(w http.ResponseWriter, r *http.Request) (issue attributes, ok bool) {
	var body struct{ Issue attributes }
	d := ticketserver.Decoder(w, r)
	d.DisallowUnknownFields()
	if err := d.Decode(&body); err != nil || !ticketserver.IsJSON(r) {
		w.WriteHeader(http.StatusBadRequest)
		return attributes{}, false
	}
	return body.Issue, true
}

func (s *Server) create(w http.ResponseWriter, r *http.Request) {
	i, ok := decode(w, r)
	priority, _ := strconv.Atoi(i.PriorityID)
	switch {
	case !ok:
	case i.ProjectID != s.o.Project:
		refuse(w, "Project cannot be blank", "Tracker cannot be blank", "Status cannot be blank")
	case i.PriorityID != "" && (priority < 1 || priority > 5):
		refuse(w, "Priority cannot be blank")
	case strings.TrimSpace(i.Subject) == "":
		refuse(w, "Subject cannot be blank")
	case len([]rune(i.Subject)) > 255:
		refuse(w, "Subject is too long (maximum is 255 characters)")
	default:
		made := s.Open(ticketserver.Ticket{Subject: i.Subject, Text: strings.ReplaceAll(i.Description, "\n", "\r\n")})
		ticketserver.Answer(w, http.StatusCreated, map[string]any{"issue": issue(made)})
	}
}

// issue returns an issue as Redmine shows it.
func issue(t ticketserver.Ticket) map[string]any {
	i := map[string]any{"id": t.ID, "status": shown(named(t.Status)), "subject": t.Subject, "description": t.Text}
	if id, err := strconv.Atoi(t.Assignee); err == nil {
		i["assigned_to"] = map[string]any{"id": id, "name": "a user"}
	}
	return i
}

// search answers the query for a text in the description. Like the original, it ignores filters that
// it does not know.
func (s *Server) search(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if project := q.Get("project_id"); project != s.o.Project {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	text, contains := strings.CutPrefix(q.Get("description"), "~")
	found := []any{}
	for _, t := range s.All() {
		open := !statuses[named(t.Status)-1].closed
		if (open || q.Get("status_id") == "*") && (!contains || strings.Contains(t.Text, text)) {
			found = append(found, issue(t))
		}
	}
	if q.Get("sort") == "id:desc" {
		slices.Reverse(found)
	}
	if n, err := strconv.Atoi(q.Get("limit")); err == nil {
		found = found[:min(n, len(found))]
	}
	ticketserver.Answer(w, http.StatusOK, map[string]any{"issues": found, "offset": 0})
}

// ticket returns the issue of a request, or answers 404.
func (s *Server) ticket(w http.ResponseWriter, r *http.Request) (ticketserver.Ticket, bool) {
	name, _ := strings.CutSuffix(r.PathValue("file"), ".json")
	id, _ := strconv.Atoi(name)
	t, ok := s.Find(id)
	if !ok {
		w.WriteHeader(http.StatusNotFound)
	}
	return t, ok
}

func (s *Server) show(w http.ResponseWriter, r *http.Request) {
	t, ok := s.ticket(w, r)
	if !ok {
		return
	}
	i := issue(t)
	for include := range strings.SplitSeq(r.URL.Query().Get("include"), ",") {
		switch include {
		case "journals":
			journals := []any{}
			for _, at := range t.Moves {
				journals = append(journals, map[string]any{"notes": "", "created_on": at.UTC().Format(time.RFC3339), "details": []any{
					map[string]any{"property": "attr", "name": "status_id", "old_value": "1", "new_value": "2"},
				}})
			}
			for _, c := range t.Comments {
				journals = append(journals, map[string]any{
					"id": c.ID, "user": map[string]any{"id": 6, "name": c.Author}, "notes": c.Text, "private_notes": c.Private,
					"created_on": c.At.UTC().Format(time.RFC3339), "details": []any{},
				})
			}
			i["journals"] = journals
		case "allowed_statuses":
			i["allowed_statuses"] = allStatuses()
		}
	}
	ticketserver.Answer(w, http.StatusOK, map[string]any{"issue": i})
}

// update changes an issue. An unknown status is ignored.
func (s *Server) update(w http.ResponseWriter, r *http.Request) {
	t, ok := s.ticket(w, r)
	if !ok {
		return
	}
	change, ok := decode(w, r)
	switch {
	case !ok:
		return
	case t.Archived: // of a closed project
		w.WriteHeader(http.StatusForbidden)
		return
	case change.AssignedTo != "" && !slices.Contains(Members, change.AssignedTo):
		refuse(w, "Assignee is invalid")
		return
	}
	s.Change(t.ID, func(t *ticketserver.Ticket) {
		if id, err := strconv.Atoi(change.StatusID); err == nil && id >= 1 && id <= len(statuses) {
			t.Status = statuses[id-1].name
		}
		if change.AssignedTo != "" {
			t.Assignee = change.AssignedTo
		}
	})
	if change.Notes != "" {
		s.Comment(t.ID, ticketserver.Comment{Author: "Bridge", Text: change.Notes})
	}
	w.WriteHeader(http.StatusNoContent)
}
