// Package rt implements a stand-in for Request Tracker 5 for tests: the part of its interface REST 2
// needed to create, find and change tickets of one queue, with the answers of the original.
package rt

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"ndrbridge/test/ticketserver"
)

// Options configures a Server.
type Options struct {
	Token string // of the only account
	Queue string
	// ReadOnly means that the account may not create tickets.
	ReadOnly bool
	// Lacks are rights that the account does not have: CommentOnTicket, ModifyTicket.
	Lacks []string
	// HidesNames means that accounts may not search users by their names.
	HidesNames bool
	Now        func() time.Time
}

// Server is a server of Request Tracker. It is an http.Handler and safe for concurrent use.
type Server struct {
	*ticketserver.Tickets
	o   Options
	mux *http.ServeMux
}

// Users are the users that may own a ticket.
var Users = []string{"ana", "ben"}

var realNames = map[string]string{"ana": "Ana Ops"}

// statuses are those of the lifecycle default, the inactive ones last.
var statuses = []string{"new", "open", "stalled", "resolved", "rejected", "deleted"}

// actions are those of the lifecycle.
var actions = map[string][]string{
	"new": {"open", "resolved", "rejected", "deleted"}, "open": {"stalled", "resolved", "rejected"},
	"stalled": {"open"}, "resolved": {"open"}, "rejected": {"open"}, "deleted": {"open"},
}

func inactive(status string) bool { return slices.Index(statuses, status) >= 3 }

// New returns a server without tickets.
func New(o Options) *Server {
	s := &Server{Tickets: &ticketserver.Tickets{Initial: "new", Now: o.Now}, o: o, mux: http.NewServeMux()}
	s.mux.HandleFunc("GET /REST/2.0/rt", func(w http.ResponseWriter, _ *http.Request) {
		ticketserver.Answer(w, http.StatusOK, map[string]string{"Version": "5.0.3"})
	})
	s.mux.HandleFunc("GET /REST/2.0/queue/{name}", s.queue)
	s.mux.HandleFunc("POST /REST/2.0/ticket", s.create)
	s.mux.HandleFunc("GET /REST/2.0/tickets", s.search)
	s.mux.HandleFunc("GET /REST/2.0/users", s.users)
	s.mux.HandleFunc("GET /REST/2.0/ticket/{id}", s.show)
	s.mux.HandleFunc("PUT /REST/2.0/ticket/{id}", s.update)
	s.mux.HandleFunc("GET /REST/2.0/ticket/{id}/history", s.history)
	s.mux.HandleFunc("GET /REST/2.0/transaction/{id}/attachments", s.attachments)
	s.mux.HandleFunc("POST /REST/2.0/ticket/{id}/comment", s.comment)
	return s
}

// ServeHTTP implements http.Handler. It serves only the account of the token.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "token "+s.o.Token {
		refuse(w, http.StatusUnauthorized, "Unauthorized")
		return
	}
	if r.Method != http.MethodGet && !ticketserver.IsJSON(r) {
		refuse(w, http.StatusUnsupportedMediaType, "Unsupported Media Type")
		return
	}
	s.mux.ServeHTTP(w, r)
}

func refuse(w http.ResponseWriter, status int, message string) {
	ticketserver.Answer(w, status, map[string]string{"message": message})
}

func (s *Server) queue(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("name") != s.o.Queue {
		refuse(w, http.StatusForbidden, "Forbidden")
		return
	}
	links := []map[string]string{{"ref": "self"}, {"ref": "history"}}
	if !s.o.ReadOnly {
		links = append(links, map[string]string{"ref": "create", "type": "ticket"})
	}
	ticketserver.Answer(w, http.StatusOK, map[string]any{"Name": s.o.Queue, "_hyperlinks": links})
}

// decode reads the body of a request, and refuses one with other fields, which the original ignores.
func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	d := ticketserver.Decoder(w, r)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		refuse(w, http.StatusBadRequest, "JSON parse error: "+err.Error())
		return false
	}
	return true
}

func (s *Server) create(w http.ResponseWriter, r *http.Request) {
	var t struct{ Queue, Subject, Content, ContentType, RefersTo, Priority, AdminCc string }
	switch {
	case !decode(w, r, &t):
	case t.Queue == "":
		refuse(w, http.StatusBadRequest, "Could not create ticket. Queue not set")
	case t.Queue != s.o.Queue || s.o.ReadOnly:
		refuse(w, http.StatusForbidden, fmt.Sprintf("No permission to create tickets in the queue '%s'", t.Queue))
	case len([]rune(t.Subject)) > 200:
		refuse(w, http.StatusBadRequest, "the subject is cut off")
	default:
		made := s.Open(ticketserver.Ticket{Subject: t.Subject, Text: t.Content, Reference: t.RefersTo})
		ticketserver.Answer(w, http.StatusCreated, map[string]string{"id": strconv.Itoa(made.ID), "type": "ticket"})
	}
}

// links returns what Request Tracker offers the account for a ticket.
func (s *Server) links(t ticketserver.Ticket) []map[string]string {
	all := []map[string]string{{"ref": "self"}, {"ref": "history"}}
	if !slices.Contains(s.o.Lacks, "CommentOnTicket") {
		all = append(all, map[string]string{"ref": "comment"})
	}
	for _, to := range actions[t.Status] {
		if !slices.Contains(s.o.Lacks, "ModifyTicket") {
			all = append(all, map[string]string{"ref": "lifecycle", "from": t.Status, "to": to})
		}
	}
	return all
}

// users answers a search for users by their names, without regard to case. The original ignores a field that the
// account may not search by, and shows all users then.
func (s *Server) users(w http.ResponseWriter, r *http.Request) {
	var query []struct{ Field, Value string }
	if err := json.Unmarshal([]byte(r.URL.Query().Get("query")), &query); err != nil {
		refuse(w, http.StatusBadRequest, "JSON parse error: "+err.Error())
		return
	}
	items := []map[string]string{}
	for _, user := range slices.Concat(Users, []string{"root"}) {
		matches := s.o.HidesNames
		for _, limit := range query {
			matches = matches || limit.Field == "Name" && strings.EqualFold(limit.Value, user)
		}
		if matches {
			items = append(items, map[string]string{"type": "user", "id": user, "RealName": realNames[user]})
		}
	}
	ticketserver.Answer(w, http.StatusOK, map[string]any{"items": items, "count": len(items), "page": 1})
}

// The queries that the stand-in understands.
var (
	inQueue     = regexp.MustCompile(`^Queue = '((?:[^'\\]|\\.)+)'$`)
	byReference = regexp.MustCompile(`^RefersTo = '([^']+)'$`)
	ifInactive  = regexp.MustCompile(`^id = (\d+) AND Status = '__Inactive__'$`)
)

func (s *Server) search(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	query := q.Get("query")
	var matches func(ticketserver.Ticket) bool
	if m := byReference.FindStringSubmatch(query); m != nil {
		matches = func(t ticketserver.Ticket) bool { return t.Reference == m[1] }
	} else if m := ifInactive.FindStringSubmatch(query); m != nil {
		matches = func(t ticketserver.Ticket) bool { return strconv.Itoa(t.ID) == m[1] && inactive(t.Status) }
	} else if m := inQueue.FindStringSubmatch(query); m != nil {
		name := regexp.MustCompile(`\\(.)`).ReplaceAllString(m[1], "$1")
		matches = func(ticketserver.Ticket) bool { return name == s.o.Queue }
	} else {
		refuse(w, http.StatusBadRequest, "Unknown field: "+query)
		return
	}
	items := []map[string]any{}
	for _, t := range s.All() {
		if !matches(t) || t.Status == "deleted" {
			continue
		}
		item := map[string]any{"id": strconv.Itoa(t.ID), "type": "ticket"}
		if q.Get("fields") == "Status,_hyperlinks" {
			item["Status"], item["_hyperlinks"] = t.Status, s.links(t)
		}
		items = append(items, item)
	}
	if q.Get("order") == "DESC" {
		slices.Reverse(items)
	}
	if n, err := strconv.Atoi(q.Get("per_page")); err == nil {
		items = items[:min(n, len(items))]
	}
	ticketserver.Answer(w, http.StatusOK, map[string]any{"items": items, "count": len(items), "page": 1})
}

// ticket returns the ticket of a request, or answers 404.
func (s *Server) ticket(w http.ResponseWriter, r *http.Request) (ticketserver.Ticket, bool) {
	id, _ := strconv.Atoi(r.PathValue("id"))
	t, ok := s.Find(id)
	if !ok {
		refuse(w, http.StatusNotFound, "Not Found")
	}
	return t, ok
}

func (s *Server) show(w http.ResponseWriter, r *http.Request) {
	if t, ok := s.ticket(w, r); ok {
		owner := t.Assignee
		if owner == "" {
			owner = "Nobody"
		}
		ticketserver.Answer(w, http.StatusOK, map[string]any{
			"id": t.ID, "Status": t.Status, "Subject": t.Subject, "Owner": map[string]string{"type": "user", "id": owner},
		})
	}
}

// update changes a ticket. The answer is 200 with a message for each change, also if it is refused.
func (s *Server) update(w http.ResponseWriter, r *http.Request) {
	t, ok := s.ticket(w, r)
	var fields struct{ Status, Owner, Subject string }
	if !ok || !decode(w, r, &fields) {
		return
	}
	var messages []string
	say := func(format string, args ...any) {
		messages = append(messages, fmt.Sprintf("Ticket %d: ", t.ID)+fmt.Sprintf(format, args...))
	}
	switch status := fields.Status; {
	case status == "" || status == t.Status:
	case t.Archived:
		say("Permission Denied")
	case !slices.Contains(statuses, strings.ToLower(status)):
		say("Status '%s' isn't a valid status for this ticket.", status)
	default:
		s.Change(t.ID, func(t *ticketserver.Ticket) { t.Status = strings.ToLower(status) })
		say("Status changed from '%s' to '%s'", t.Status, strings.ToLower(status))
	}
	switch {
	case fields.Owner == "" || fields.Owner == t.Assignee:
	case t.Archived:
		say("Permission Denied")
	case !slices.Contains(Users, fields.Owner):
		say("That user does not exist")
	default:
		s.Change(t.ID, func(t *ticketserver.Ticket) { t.Assignee = fields.Owner })
		say("Owner changed to %s", fields.Owner)
	}
	ticketserver.Answer(w, http.StatusOK, messages)
}

// selected returns the terms of a request's filter by their fields, or answers 400.
func selected(w http.ResponseWriter, r *http.Request) (by map[string][]string, ok bool) {
	var terms []struct{ Field, Operator, Value string }
	if err := json.Unmarshal([]byte(r.URL.Query().Get("query")), &terms); err != nil {
		refuse(w, http.StatusBadRequest, "JSON parse error: "+err.Error())
		return nil, false
	}
	by = map[string][]string{}
	for _, t := range terms {
		by[t.Field] = append(by[t.Field], strings.TrimSpace(t.Operator+" "+t.Value))
	}
	return by, true
}

// list answers with a page of items.
func list[T any](w http.ResponseWriter, r *http.Request, items []T) {
	most, err := strconv.Atoi(r.URL.Query().Get("per_page"))
	if err != nil || most < 1 {
		most = 20
	}
	most = min(most, 100)
	page, err := strconv.Atoi(r.URL.Query().Get("page"))
	if err != nil || page < 1 {
		page = 1
	}
	from := min((page-1)*most, len(items))
	ticketserver.Answer(w, http.StatusOK, map[string]any{"items": items[from:min(from+most, len(items))], "page": page, "per_page": most})
}

// history answers with the newest transactions of some types; without any, if there is no such ticket.
func (s *Server) history(w http.ResponseWriter, r *http.Request) {
	id, _ := strconv.Atoi(r.PathValue("id"))
	t, _ := s.Find(id)
	by, ok := selected(w, r)
	if q := r.URL.Query(); !ok {
		return
	} else if q.Get("orderby") != "id" || q.Get("order") != "DESC" || q.Get("fields") != "Data,Creator,Created" || len(by) != 1 {
		refuse(w, http.StatusBadRequest, "the stand-in shows the newest transactions of some types with three fields")
		return
	}
	type item struct {
		ID            string `json:"id"`
		Data, Created string
		Creator       map[string]string
		Of            string `json:"type"`
	}
	items := []item{}
	add := func(kind string, id int, data, author string, at time.Time) {
		if slices.Contains(by["Type"], kind) {
			items = append(items, item{strconv.Itoa(id), data, at.UTC().Format(time.RFC3339), map[string]string{"type": "user", "id": author}, "transaction"})
		}
	}
	for n, at := range t.Moves {
		add("Status", -1-n, "", "RT_System", at)
	}
	for _, c := range t.Comments {
		kind, subject := "Comment", "No Subject"
		if c.Reply {
			kind = "Correspond"
		}
		if c.Subject != "" {
			subject = c.Subject + "\n"
		}
		add(kind, c.ID, subject, c.Author, c.At)
	}
	slices.Reverse(items)
	list(w, r, items)
}

// attachments answers with the text of a comment.
func (s *Server) attachments(w http.ResponseWriter, r *http.Request) {
	by, ok := selected(w, r)
	if q := r.URL.Query(); !ok {
		return
	} else if q.Get("fields") != "ContentType,Content" || !slices.Equal(by["Filename"], []string{"IS NULL"}) {
		refuse(w, http.StatusBadRequest, "the stand-in shows parts that are no files, with two fields")
		return
	}
	items := []map[string]string{}
	for _, t := range s.All() {
		for _, c := range t.Comments {
			kind := "text/plain"
			if c.HTML {
				kind = "text/html"
			}
			if strconv.Itoa(c.ID) == r.PathValue("id") && c.Text != "" && slices.Contains(by["ContentType"], kind) {
				items = append(items, map[string]string{"ContentType": kind, "Content": c.Text, "type": "attachment"})
			}
		}
	}
	list(w, r, items)
}

func (s *Server) comment(w http.ResponseWriter, r *http.Request) {
	t, ok := s.ticket(w, r)
	var message struct{ Subject, Content, ContentType string }
	switch {
	case !ok || !decode(w, r, &message):
	case message.ContentType == "":
		refuse(w, http.StatusBadRequest, "ContentType is a required field for application/json")
	case t.Archived:
		refuse(w, http.StatusBadRequest, "Permission Denied")
	default:
		s.Comment(t.ID, ticketserver.Comment{Author: "ndrbridge", Subject: message.Subject, Text: message.Content})
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode([]string{"Comments added"})
	}
}
