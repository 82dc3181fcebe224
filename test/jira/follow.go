package jira

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"ndrbridge/test/ticketserver"
)

// Comment is a comment on an issue.
type Comment struct {
	Author  string
	Body    json.RawMessage // in Atlassian's document format
	Created time.Time
	Role    string // that alone may see it; empty: everybody

	id string
}

// move is an entry of an issue's changelog.
type move struct {
	from, to string
	at       time.Time
}

// transition leads to a status, from some others.
type transition struct {
	id, name, to string
	from         []string
	resolves     bool // it requires a resolution
}

// The transitions of a new project's workflow.
var transitions = []transition{
	{"11", "Reopen", "To Do", []string{"Done", "In Progress"}, false},
	{"21", "Start", "In Progress", []string{"To Do"}, false},
	{"31", "Close", "Done", []string{"To Do", "In Progress"}, true},
}

// timeLayout is that of times in answers.
const timeLayout = "2006-01-02T15:04:05.000-0700"

func (s *Server) handleFollow() {
	s.mux.HandleFunc("GET /rest/api/3/issue/{key}/comment", s.onIssue(s.comments))
	s.mux.HandleFunc("POST /rest/api/3/issue/{key}/comment", s.onIssue(s.comment))
	s.mux.HandleFunc("GET /rest/api/3/issue/{key}/transitions", s.onIssue(s.transitions))
	s.mux.HandleFunc("POST /rest/api/3/issue/{key}/transitions", s.onIssue(s.transit))
	s.mux.HandleFunc("PUT /rest/api/3/issue/{key}/assignee", s.onIssue(s.assign))
}

// onIssue calls handle with the issue, holding the lock.
func (s *Server) onIssue(handle func(http.ResponseWriter, *http.Request, *Issue)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		i := s.find(r.PathValue("key"))
		if i == nil {
			refuse(w, http.StatusNotFound, "Issue does not exist or you do not have permission to see it.", nil)
			return
		}
		if i.Archived && r.Method != http.MethodGet {
			refuse(w, http.StatusForbidden, "You do not have permission to edit issues in this project.", nil)
			return
		}
		handle(w, r, i)
	}
}

func (s *Server) comments(w http.ResponseWriter, r *http.Request, i *Issue) {
	most, err := strconv.Atoi(r.URL.Query().Get("maxResults"))
	if err != nil || most < 1 {
		most = 50
	}
	all := slices.Clone(i.Comments)
	if r.URL.Query().Get("orderBy") == "-created" {
		slices.Reverse(all)
	}
	from, err := strconv.Atoi(r.URL.Query().Get("startAt"))
	if err != nil || from < 0 {
		from = 0
	}
	from = min(from, len(all))
	shown := []any{}
	for _, c := range all[from:min(len(all), from+min(most, 100))] {
		comment := map[string]any{
			"id": c.id, "body": c.Body, "created": c.Created.Format(timeLayout), "author": map[string]string{"accountId": c.Author, "displayName": c.Author},
		}
		if c.Role != "" {
			comment["visibility"] = map[string]string{"type": "role", "value": c.Role, "identifier": c.Role}
		}
		shown = append(shown, comment)
	}
	ticketserver.Answer(w, http.StatusOK, map[string]any{"startAt": from, "maxResults": most, "total": len(all), "comments": shown})
}

func (s *Server) comment(w http.ResponseWriter, r *http.Request, i *Issue) {
	var body struct {
		Body json.RawMessage `json:"body"`
	}
	if !read(w, r, &body) {
		return
	}
	if err := checkDocument(body.Body); err != nil {
		refuse(w, http.StatusBadRequest, "", map[string]string{"comment": "Comment body is not valid: " + err.Error()})
		return
	}
	c := s.add(i, Comment{Author: s.o.Account, Body: body.Body})
	ticketserver.Answer(w, http.StatusCreated, map[string]any{"id": c.id, "body": c.Body})
}

// add adds a comment. The lock must be held.
func (s *Server) add(i *Issue, c Comment) Comment {
	s.said++
	c.id, c.Created = strconv.Itoa(30000+s.said), s.o.Now()
	i.Comments = append(slices.Clone(i.Comments), c) // Issues has copies
	return c
}

// Comment adds a comment, as a person does. Each line is a paragraph.
func (s *Server) Comment(key, text, author string) {
	var paragraphs []any
	for line := range strings.Lines(text) {
		paragraphs = append(paragraphs, map[string]any{"type": "paragraph", "content": []any{map[string]any{"type": "text", "text": strings.TrimSpace(line)}}})
	}
	body, _ := json.Marshal(map[string]any{"type": "doc", "version": 1, "content": paragraphs}) // of texts
	s.Add(key, Comment{Author: author, Body: body})
}

// Add adds any comment, as a person does.
func (s *Server) Add(key string, c Comment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.find(key); i != nil {
		s.add(i, c)
	}
}

func (s *Server) transitions(w http.ResponseWriter, _ *http.Request, i *Issue) {
	offered := []any{}
	for _, t := range transitions {
		if slices.Contains(t.from, i.Status.Name) {
			offered = append(offered, map[string]any{"id": t.id, "name": t.name, "to": map[string]any{"name": t.to}})
		}
	}
	ticketserver.Answer(w, http.StatusOK, map[string]any{"transitions": offered})
}

func (s *Server) transit(w http.ResponseWriter, r *http.Request, i *Issue) {
	var body struct {
		Transition reference `json:"transition"`
		Fields     struct {
			Resolution *reference `json:"resolution"`
		} `json:"fields"`
	}
	if !read(w, r, &body) {
		return
	}
	n := slices.IndexFunc(transitions, func(t transition) bool {
		return t.id == body.Transition.ID && slices.Contains(t.from, i.Status.Name)
	})
	switch {
	case n < 0:
		refuse(w, http.StatusBadRequest, "It seems that you have tried to perform a workflow operation that is not valid for the current state of this issue.", nil)
		return
	case transitions[n].resolves && body.Fields.Resolution == nil:
		refuse(w, http.StatusBadRequest, "", map[string]string{"resolution": "Resolution is required."})
		return
	case body.Fields.Resolution != nil && !slices.Contains([]string{"Done", "Won't Do"}, body.Fields.Resolution.Name):
		refuse(w, http.StatusBadRequest, "", map[string]string{"resolution": "The resolution selected is invalid."})
		return
	}
	i.Resolution = ""
	if body.Fields.Resolution != nil {
		i.Resolution = body.Fields.Resolution.Name
	}
	i.set(transitions[n].to, s.o.Now())
	w.WriteHeader(http.StatusNoContent)
}

// set sets the status, which is one of the workflow.
func (i *Issue) set(status string, at time.Time) {
	i.moves = append(i.moves, move{i.Status.Name, status, at})
	i.Status = StatusNamed(status)
}

// StatusNamed returns the status of the workflow with a name; it must exist.
func StatusNamed(name string) Status {
	return workflow[slices.IndexFunc(workflow, func(w Status) bool { return w.Name == name })]
}

func (s *Server) assign(w http.ResponseWriter, r *http.Request, i *Issue) {
	var body struct {
		AccountID *string `json:"accountId"`
	}
	if !read(w, r, &body) {
		return
	}
	if body.AccountID == nil {
		i.Assignee = ""
	} else if i.Assignee = *body.AccountID; !slices.Contains([]string{"a-1", "a-2"}, *body.AccountID) {
		i.Assignee = ""
		refuse(w, http.StatusBadRequest, "", map[string]string{"assignee": "User '" + *body.AccountID + "' cannot be assigned issues."})
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// changelog returns the status changes of an issue, the newest first.
func (i *Issue) changelog() map[string]any {
	histories := []any{}
	for n, m := range slices.Backward(i.moves) {
		histories = append(histories, map[string]any{
			"id": strconv.Itoa(n), "created": m.at.Format(timeLayout),
			"items": []any{map[string]any{"field": "status", "fieldId": "status", "fromString": m.from, "toString": m.to}},
		})
	}
	return map[string]any{"histories": histories}
}

// Change changes an issue, as a person does, without a webhook.
func (s *Server) Change(key string, change func(*Issue)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.find(key); i != nil {
		was := i.Status.Name
		change(i)
		if i.Status.Name != was {
			i.moves = append(i.moves, move{was, i.Status.Name, s.o.Now()})
		}
	}
}

// MoveTo moves an issue to another project, as a person does. The issue is found by its old key, too,
// which a search does not know.
func (s *Server) MoveTo(key, project string) (newKey string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(key)
	newKey = project + "-" + i.ID
	if n := slices.IndexFunc(i.oldKeys, func(old string) bool { return strings.HasPrefix(old, project+"-") }); n >= 0 {
		newKey = i.oldKeys[n] // that it had there
	}
	i.oldKeys, i.Key = append(i.oldKeys, i.Key), newKey
	return newKey
}

// Delete deletes an issue, as a person does.
func (s *Server) Delete(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.issues = slices.DeleteFunc(s.issues, func(i *Issue) bool { return i.Key == key || i.ID == key })
}
