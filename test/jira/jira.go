// Package jira implements a stand-in for Jira Cloud for tests and the demo: the part of its
// REST API, version 3, needed to create and follow an issue. It refuses what the
// documentation does not allow, even if the original is lenient.
package jira

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ndrbridge/test/ticketserver"
)

// Options configures a Server.
type Options struct {
	URL          string   // the server's own address, the prefix of self links
	Email, Token string   // of the account that may use the REST API
	Account      string   // that account's id, as in webhooks
	Project      string   // the key of the only project
	ReadOnly     bool     // the account may not create issues, nor see workflows
	Lacks        []string // permissions that the account lacks
	// IndexDelay is the time until a search finds a new issue: a search of the original may
	// not return the newest.
	IndexDelay time.Duration
	// Webhook is the URL to which changes are sent; empty: none are sent.
	Webhook string
	// Secret signs the webhooks.
	Secret string
	Now    func() time.Time
}

// Issue is the current state of an issue.
type Issue struct {
	ID, Key     string
	Summary     string
	Description json.RawMessage // in Atlassian's document format
	Labels      []string
	Type        string
	Priority    string
	Status      Status
	Resolution  string // empty: unresolved
	Assignee    string // an account
	Comments    []Comment
	Archived    bool // it can be read alone
	Created     time.Time

	moves   []move
	oldKeys []string
}

// Status is a status of the workflow.
type Status struct {
	Name     string
	Category string // new, indeterminate or done
}

// The statuses of a new project's workflow.
var workflow = []Status{{"To Do", "new"}, {"In Progress", "indeterminate"}, {"Done", "done"}, {"Won't Do", "done"}}

// Server is a Jira server. It is an http.Handler and safe for concurrent use.
type Server struct {
	o      Options
	mux    *http.ServeMux
	mu     sync.Mutex
	issues []*Issue
	made   int // issues
	sent   int // webhooks
	said   int // comments
}

// New returns a server without issues.
func New(o Options) *Server {
	s := &Server{o: o, mux: http.NewServeMux()}
	s.mux.HandleFunc("POST /rest/api/3/issue", s.create)
	s.mux.HandleFunc("GET /rest/api/3/issue/{key}", s.get)
	s.mux.HandleFunc("GET /rest/api/3/myself", s.myself)
	s.mux.HandleFunc("GET /rest/api/3/project/{key}", s.project)
	s.mux.HandleFunc("GET /rest/api/3/mypermissions", s.permissions)
	s.mux.HandleFunc("GET /rest/api/3/project/{key}/statuses", s.statuses)
	s.mux.HandleFunc("POST /rest/api/3/workflows", s.workflows)
	s.mux.HandleFunc("GET /rest/api/3/user/bulk", s.users)
	s.mux.HandleFunc("GET /rest/api/3/search/jql", s.search)
	s.mux.HandleFunc("POST /rest/api/3/search/jql", s.search)
	s.mux.HandleFunc("/rest/api/3/search", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusGone, "The requested API has been removed. Please use the newer, enhanced search-based API instead.", nil)
	})
	s.mux.HandleFunc("GET /browse/{key}", s.browse)
	s.handleFollow()
	return s
}

// ServeHTTP implements http.Handler. It serves only the configured account, except for the page of
// an issue.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/browse/") {
		s.mux.ServeHTTP(w, r)
		return
	}
	if email, token, _ := r.BasicAuth(); email != s.o.Email || token != s.o.Token {
		refuse(w, http.StatusUnauthorized, "Client must be authenticated to access this resource.", nil)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// Issues returns a copy of all issues, oldest first.
func (s *Server) Issues() []Issue {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Issue
	for _, i := range s.issues {
		all = append(all, *i)
	}
	return all
}

// refuse answers with an error collection of the REST API.
func refuse(w http.ResponseWriter, status int, message string, fields map[string]string) {
	messages := []string{}
	if message != "" {
		messages = append(messages, message)
	}
	if fields == nil {
		fields = map[string]string{}
	}
	ticketserver.Answer(w, status, map[string]any{"errorMessages": messages, "errors": fields})
}

// reference refers to an object by its id, its key or its name.
type reference struct {
	ID   string `json:"id"`
	Key  string `json:"key"`
	Name string `json:"name"`
}

func (s *Server) create(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Fields struct {
			Project     *reference      `json:"project"`
			IssueType   *reference      `json:"issuetype"`
			Summary     string          `json:"summary"`
			Description json.RawMessage `json:"description"`
			Labels      []string        `json:"labels"`
			Priority    *reference      `json:"priority"`
		} `json:"fields"`
		Update json.RawMessage `json:"update"`
	}
	if !read(w, r, &body) {
		return
	}
	f, wrong := body.Fields, map[string]string{}
	switch {
	case f.Project == nil || f.Project.Key == "" && f.Project.ID == "":
		wrong["project"] = "Specify a valid project ID or key"
	case f.Project.Key != s.o.Project:
		wrong["project"] = "valid project is required"
	}
	if f.IssueType == nil || f.IssueType.Name == "" && f.IssueType.ID == "" {
		wrong["issuetype"] = "Specify an issue type"
	} else if !slices.Contains([]string{"Task", "Bug", "Incident"}, f.IssueType.Name) {
		wrong["issuetype"] = "The issue type selected is invalid."
	}
	switch {
	case strings.TrimSpace(f.Summary) == "":
		wrong["summary"] = "You must specify a summary of the issue."
	case strings.ContainsAny(f.Summary, "\r\n"):
		wrong["summary"] = "The summary is invalid because it contains newline characters."
	case len([]rune(f.Summary)) > 255:
		wrong["summary"] = "Summary must be less than 255 characters."
	}
	if f.Description != nil {
		if err := checkDocument(f.Description); err != nil {
			wrong["description"] = "Operation value must be an Atlassian Document: " + err.Error()
		}
	}
	for _, label := range f.Labels {
		if label == "" || len(label) > 255 || strings.ContainsAny(label, " \t\r\n") {
			wrong["labels"] = fmt.Sprintf("The label '%s' contains spaces which is invalid.", label)
		}
	}
	priority := "Medium"
	if f.Priority != nil {
		if priority = f.Priority.Name; !slices.Contains([]string{"Highest", "High", "Medium", "Low", "Lowest"}, priority) {
			wrong["priority"] = "The priority selected is invalid."
		}
	}
	if len(wrong) > 0 {
		refuse(w, http.StatusBadRequest, "", wrong)
		return
	}
	s.mu.Lock()
	s.made++
	n := s.made
	i := &Issue{
		ID: strconv.Itoa(10000 + n), Key: s.o.Project + "-" + strconv.Itoa(n), Summary: f.Summary, Description: f.Description,
		Labels: f.Labels, Type: f.IssueType.Name, Priority: priority, Status: workflow[0], Created: s.o.Now(),
	}
	s.issues = append(s.issues, i)
	s.mu.Unlock()
	ticketserver.Answer(w, http.StatusCreated, map[string]string{"id": i.ID, "key": i.Key, "self": s.self(i)})
}

func (s *Server) self(i *Issue) string { return s.o.URL + "/rest/api/3/issue/" + i.ID }

// read decodes a body, which must not contain unknown fields.
func read(w http.ResponseWriter, r *http.Request, body any) bool {
	if !ticketserver.IsJSON(r) {
		w.WriteHeader(http.StatusUnsupportedMediaType)
		return false
	}
	decoder := ticketserver.Decoder(w, r)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(body); err != nil {
		refuse(w, http.StatusBadRequest, "Invalid request payload. Refer to the REST API documentation and try again. "+err.Error(), nil)
		return false
	}
	return true
}

func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(r.PathValue("key"))
	if i == nil {
		refuse(w, http.StatusNotFound, "Issue does not exist or you do not have permission to see it.", nil)
		return
	}
	shown := s.shown(i)
	if r.URL.Query().Get("expand") == "changelog" {
		shown["changelog"] = i.changelog()
	}
	ticketserver.Answer(w, http.StatusOK, shown)
}

// find returns the issue with a key or an id. The lock must be held.
func (s *Server) find(key string) *Issue {
	for _, i := range s.issues {
		if i.Key == key || i.ID == key || slices.Contains(i.oldKeys, key) {
			return i
		}
	}
	return nil
}

// shown returns the JSON form of an issue in the API and webhooks.
func (s *Server) shown(i *Issue) map[string]any {
	var resolution any
	if i.Resolution != "" {
		resolution = map[string]string{"id": "10000", "name": i.Resolution}
	}
	var assignee any
	if i.Assignee != "" {
		assignee = map[string]string{"accountId": i.Assignee}
	}
	return map[string]any{
		"id": i.ID, "key": i.Key, "self": s.self(i),
		"fields": map[string]any{
			"summary": i.Summary, "labels": i.Labels, "resolution": resolution, "assignee": assignee,
			"status": map[string]any{
				"name": i.Status.Name, "id": "3",
				"statusCategory": map[string]any{"id": 2, "key": i.Status.Category, "name": i.Status.Name},
			},
		},
	}
}

func (s *Server) search(w http.ResponseWriter, r *http.Request) {
	var query struct {
		JQL        string   `json:"jql"`
		Fields     []string `json:"fields"`
		MaxResults int      `json:"maxResults"`
	}
	if r.Method == http.MethodGet {
		query.JQL = r.URL.Query().Get("jql")
		query.Fields = strings.Split(r.URL.Query().Get("fields"), ",")
	} else if !read(w, r, &query) {
		return
	}
	label, err := s.label(query.JQL)
	if err != nil {
		refuse(w, http.StatusBadRequest, "Error in the JQL Query: "+err.Error(), nil)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := []any{}
	for _, i := range s.issues {
		if slices.Contains(i.Labels, label) && strings.HasPrefix(i.Key, s.o.Project+"-") && s.o.Now().Sub(i.Created) >= s.o.IndexDelay {
			issue := s.shown(i)
			if len(query.Fields) == 0 || query.Fields[0] == "" {
				issue = map[string]any{"id": i.ID} // without fields, the newer search returns only ids
			}
			found = append(found, issue)
		}
	}
	ticketserver.Answer(w, http.StatusOK, map[string]any{"issues": found, "isLast": true})
}

// label parses the only supported query: project = "P" AND labels = "L", in either order,
// with an ORDER BY.
func (s *Server) label(jql string) (label string, err error) {
	jql, _, _ = strings.Cut(jql, " ORDER BY ")
	project := false
	for part := range strings.SplitSeq(jql, " AND ") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), " = ")
		value, quoteErr := strconv.Unquote(value)
		if !ok || quoteErr != nil {
			return "", fmt.Errorf("%q is not supported here", part)
		}
		switch name {
		case "project":
			if value != s.o.Project {
				return "", fmt.Errorf("the value '%s' does not exist for the field 'project'", value)
			}
			project = true
		case "labels":
			label = value
		default:
			return "", fmt.Errorf("the field %q is not supported here", name)
		}
	}
	if label == "" || !project {
		return "", errors.New("a query must be bounded: project and labels")
	}
	return label, nil
}

// Move moves an issue to another status, as a person does. If it returns nil, the webhook
// about it was answered with 2xx.
func (s *Server) Move(ctx context.Context, key, status, resolution, account string) error {
	s.mu.Lock()
	i := s.find(key)
	to := slices.IndexFunc(workflow, func(w Status) bool { return w.Name == status })
	if i == nil || to < 0 {
		s.mu.Unlock()
		return fmt.Errorf("unknown issue %s or status %s", key, status)
	}
	from := i.Status
	items := []any{map[string]any{
		"field": "status", "fieldtype": "jira", "fieldId": "status",
		"from": "1", "fromString": from.Name, "to": "3", "toString": status,
	}}
	if i.Resolution != resolution {
		items = append(items, map[string]any{
			"field": "resolution", "fieldtype": "jira", "fieldId": "resolution",
			"from": nil, "fromString": i.Resolution, "to": "10000", "toString": resolution,
		})
	}
	i.set(workflow[to].Name, s.o.Now())
	i.Resolution = resolution
	s.sent++
	body, err := json.Marshal(map[string]any{
		"timestamp": s.o.Now().UnixMilli(), "webhookEvent": "jira:issue_updated", "issue_event_type_name": "issue_generic",
		"user":      map[string]any{"accountId": account, "displayName": account, "active": true},
		"issue":     s.shown(i),
		"changelog": map[string]any{"id": strconv.Itoa(20000 + s.sent), "items": items},
	})
	identifier := fmt.Sprintf("webhook-%d", s.sent)
	s.mu.Unlock()
	if err != nil || s.o.Webhook == "" {
		return err
	}
	return ticketserver.Notify(ctx, s.o.Webhook, map[string]string{
		"X-Atlassian-Webhook-Identifier": identifier, "X-Hub-Signature": sign(s.o.Secret, body),
	}, body)
}
