// Package servicenow implements a stand-in for ServiceNow for tests and the demo: the part
// of its Table API needed to create and find an incident, and a REST message about changes.
// It refuses columns that the table incident does not have, which the original ignores.
package servicenow

import (
	"context"
	"crypto/md5" // sys_ids are 32 hexadecimal digits
	"encoding/hex"
	"encoding/json"
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
	URL                string // the server's own address
	Username, Password string // of the account that may use the Table API
	// Message is the URL of the REST message about changed incidents; empty: none is sent.
	Message string
	// Secret is sent in the header X-Ndrbridge-Secret of the message.
	Secret string
	// Roles are those of the account, as far as it may see them.
	Roles []string
	Now   func() time.Time
}

// Incident is a record of the table incident: column → value.
type Incident map[string]string

// columns are the columns that a client may set, with their maximum lengths in characters.
var columns = map[string]int{
	"short_description": 160, "description": 4000, "correlation_id": 100, "correlation_display": 100,
	"urgency": 1, "impact": 1, "category": 40, "subcategory": 40, "assignment_group": 100, "assigned_to": 100,
	"caller_id": 100, "work_notes": 4000, "comments": 4000, "contact_type": 40, "cmdb_ci": 100,
	"state": 1, "close_code": 40, "close_notes": 4000,
}

// Server is a ServiceNow server. It is an http.Handler and safe for concurrent use.
type Server struct {
	o         Options
	mux       *http.ServeMux
	mu        sync.Mutex
	incidents []Incident
	inserted  int
	notes     []note
}

// New returns a server without incidents.
func New(o Options) *Server {
	s := &Server{o: o, mux: http.NewServeMux()}
	s.mux.HandleFunc("POST /api/now/table/incident", s.insert)
	s.mux.HandleFunc("GET /api/now/table/incident", s.query)
	s.mux.HandleFunc("GET /api/now/table/incident/{id}", s.get)
	s.mux.HandleFunc("PATCH /api/now/table/incident/{id}", s.update)
	s.mux.HandleFunc("GET /api/now/table/sys_journal_field", s.journal)
	s.mux.HandleFunc("GET /api/now/table/sys_user_has_role", s.lookUp("user=javascript:gs.getUserID()^state=active", s.roles()))
	s.mux.HandleFunc("GET /api/now/table/sys_choice", s.lookUp("nameINincident,task^element=state^inactive=false^language=en", states))
	s.mux.HandleFunc("GET /api/now/table/sys_user", s.users)
	return s
}

// ServeHTTP implements http.Handler. It serves only the configured account.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if username, password, _ := r.BasicAuth(); username != s.o.Username || password != s.o.Password {
		refuse(w, http.StatusUnauthorized, "User Not Authenticated", "Required to provide Auth information")
		return
	}
	if !strings.Contains(r.Header.Get("Accept"), "application/json") {
		refuse(w, http.StatusNotAcceptable, "Requested media type is not supported", "ask for application/json")
		return
	}
	s.mux.ServeHTTP(w, r)
}

// Incidents returns a copy of all incidents, oldest first.
func (s *Server) Incidents() []Incident {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Incident
	for _, i := range s.incidents {
		all = append(all, i.clone(nil))
	}
	return all
}

// clone returns a copy of an incident, or of some of its columns.
func (i Incident) clone(some []string) Incident {
	c := Incident{}
	for column, value := range i {
		if len(some) == 0 || slices.Contains(some, column) {
			c[column] = value
		}
	}
	return c
}

func refuse(w http.ResponseWriter, status int, message, detail string) {
	ticketserver.Answer(w, status, map[string]any{"error": map[string]string{"message": message, "detail": detail}, "status": "failure"})
}

func (s *Server) insert(w http.ResponseWriter, r *http.Request) {
	if !ticketserver.IsJSON(r) {
		refuse(w, http.StatusUnsupportedMediaType, "Requested media type is not supported", "send application/json")
		return
	}
	incident := Incident{}
	if err := ticketserver.Decoder(w, r).Decode(&incident); err != nil {
		refuse(w, http.StatusBadRequest, "Exception while reading request", err.Error())
		return
	}
	for column, value := range incident {
		most, ok := columns[column]
		if !ok || len([]rune(value)) > most {
			refuse(w, http.StatusBadRequest, "Invalid column", fmt.Sprintf("%s: %d characters", column, len([]rune(value))))
			return
		}
	}
	for _, column := range []string{"urgency", "impact"} {
		if value := incident[column]; value != "" && !slices.Contains([]string{"1", "2", "3"}, value) {
			refuse(w, http.StatusBadRequest, "Invalid value", column+" is 1, 2 or 3")
			return
		}
	}
	if incident["short_description"] == "" {
		refuse(w, http.StatusForbidden, "Operation Failed", "Data Policy Exception: Short description is mandatory")
		return
	}
	s.mu.Lock()
	s.inserted++
	n := s.inserted
	id := md5.Sum([]byte(strconv.Itoa(n)))
	incident["sys_id"] = hex.EncodeToString(id[:])
	incident["number"] = fmt.Sprintf("INC%07d", 10000+n)
	incident["state"], incident["close_code"], incident["active"], incident["assigned_to"] = "1", "", "true", ""
	incident["sys_mod_count"], incident["sys_updated_by"] = "0", s.o.Username
	incident["sys_created_on"], incident["sys_updated_on"] = s.now(), s.now()
	s.incidents = append(s.incidents, incident)
	for _, column := range journals {
		s.write(incident, column, incident[column], s.o.Username)
		delete(incident, column)
	}
	shown := incident.clone(nil)
	s.mu.Unlock()
	w.Header().Set("Location", s.o.URL+"/api/now/table/incident/"+shown["sys_id"])
	ticketserver.Answer(w, http.StatusCreated, map[string]any{"result": shown})
}

// query answers queries for equal values, newest first for ORDERBYDESC.
func (s *Server) query(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit := 10000
	if text := q.Get("sysparm_limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil {
			refuse(w, http.StatusBadRequest, "Invalid limit", text)
			return
		}
	}
	var some []string
	if fields := q.Get("sysparm_fields"); fields != "" {
		some = strings.Split(fields, ",")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := []Incident{}
	for _, i := range s.incidents {
		matches := true
		for term := range strings.SplitSeq(q.Get("sysparm_query"), "^") {
			if term == "" || strings.HasPrefix(term, "ORDERBY") {
				continue
			}
			column, value, ok := strings.Cut(term, "=")
			if _, known := columns[column]; !ok || !known {
				// The original ignores an unknown term and returns all incidents.
				refuse(w, http.StatusBadRequest, "Invalid query detected", term)
				return
			}
			matches = matches && i[column] == value
		}
		if matches && len(found) < limit {
			found = append(found, i.clone(some))
		}
	}
	ticketserver.Answer(w, http.StatusOK, map[string]any{"result": found})
}

// Close resolves an incident, as a person does. If it returns nil, the message about it was
// answered with 2xx.
func (s *Server) Close(ctx context.Context, number, closeCode, user string) error {
	s.mu.Lock()
	at := slices.IndexFunc(s.incidents, func(i Incident) bool { return i["number"] == number })
	if at < 0 {
		s.mu.Unlock()
		return fmt.Errorf("unknown incident %s", number)
	}
	i := s.incidents[at]
	count, _ := strconv.Atoi(i["sys_mod_count"])
	i["state"], i["close_code"], i["sys_updated_by"], i["sys_mod_count"] = "6", closeCode, user, strconv.Itoa(count+1)
	message := i.clone([]string{"sys_id", "number", "state", "close_code", "assigned_to", "sys_updated_by", "sys_mod_count"})
	s.mu.Unlock()
	message["operation"], message["table"] = "update", "incident"
	body, err := json.Marshal(message)
	if err != nil || s.o.Message == "" {
		return err
	}
	return ticketserver.Notify(ctx, s.o.Message, map[string]string{"X-Ndrbridge-Secret": s.o.Secret}, body)
}
