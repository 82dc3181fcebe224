package servicenow

import (
	"crypto/md5" // sys_ids are 32 hexadecimal digits
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"ndrbridge/test/ticketserver"
)

// note is a row of the table sys_journal_field.
type note struct{ id, sysID, column, text, by, on string }

// journals are the columns of an incident that have their values in sys_journal_field.
var journals = []string{"work_notes", "comments"}

// users are the sys_ids of the users that an incident can be assigned to.
var users = []string{"u-1", "u-2"}

// find returns the incident with a sys_id, or nil. The lock must be held.
func (s *Server) find(id string) Incident {
	for _, i := range s.incidents {
		if i["sys_id"] == id {
			return i
		}
	}
	return nil
}

func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(r.PathValue("id"))
	if i == nil {
		refuse(w, http.StatusNotFound, "No Record found", "Record doesn't exist or ACL restricts the record retrieval")
		return
	}
	s.show(w, r, i)
}

func (s *Server) show(w http.ResponseWriter, r *http.Request, i Incident) {
	fields := strings.Split(r.URL.Query().Get("sysparm_fields"), ",")
	shown := i.clone(fields)
	for _, journal := range journals {
		if slices.Contains(fields, journal) {
			shown[journal] = "" // a journal is shown in its own table
		}
	}
	ticketserver.Answer(w, http.StatusOK, map[string]any{"result": shown})
}

// update changes an incident, under the rules of the process Incident.
func (s *Server) update(w http.ResponseWriter, r *http.Request) {
	if !ticketserver.IsJSON(r) {
		refuse(w, http.StatusUnsupportedMediaType, "Requested media type is not supported", "send application/json")
		return
	}
	change := Incident{}
	if err := ticketserver.Decoder(w, r).Decode(&change); err != nil {
		refuse(w, http.StatusBadRequest, "Exception while reading request", err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(r.PathValue("id"))
	if i == nil {
		refuse(w, http.StatusNotFound, "No Record found", "Record doesn't exist or ACL restricts the record retrieval")
		return
	}
	for column, value := range change {
		if most, ok := columns[column]; !ok || len([]rune(value)) > most {
			refuse(w, http.StatusBadRequest, "Invalid column", fmt.Sprintf("%s: %d characters", column, len([]rune(value))))
			return
		}
	}
	state := change["state"]
	switch {
	case i["locked"] == "true":
		refuse(w, http.StatusForbidden, "Operation Failed", "ACL Exception Update Failed due to security constraints")
		return
	case state == "6" && (change["close_code"] == "" || change["close_notes"] == ""):
		refuse(w, http.StatusForbidden, "Operation Failed", "Data Policy Exception: Resolution code and Resolution notes are mandatory")
		return
	}
	for _, column := range journals {
		s.write(i, column, change[column], s.o.Username)
		delete(change, column)
	}
	if user := change["assigned_to"]; user != "" && !slices.Contains(users, user) {
		change["assigned_to"] = "" // an unknown reference is left empty
	}
	if state != "" && !slices.Contains([]string{"1", "2", "3", "6", "7", "8"}, state) {
		delete(change, "state") // an unknown choice is ignored
	}
	count, _ := strconv.Atoi(i["sys_mod_count"])
	i["sys_mod_count"], i["sys_updated_by"], i["sys_updated_on"] = strconv.Itoa(count+1), s.o.Username, s.now()
	for column, value := range change {
		i[column] = value
	}
	i["active"] = strconv.FormatBool(i["state"] != "7" && i["state"] != "8")
	s.show(w, r, i)
}

// write adds to a journal of an incident, unless the text is empty. The lock must be held.
func (s *Server) write(i Incident, column, text, user string) {
	if text == "" {
		return
	}
	id := md5.Sum([]byte("note " + strconv.Itoa(len(s.notes))))
	s.notes = append(s.notes, note{hex.EncodeToString(id[:]), i["sys_id"], column, text, user, s.now()})
}

// Comment adds to a journal of an incident, as a person does.
func (s *Server) Comment(number, column, text, user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.incidents {
		if i["number"] == number {
			s.write(i, column, text, user)
		}
	}
}

// journal answers the query for the newest comments and work notes of an incident.
func (s *Server) journal(w http.ResponseWriter, r *http.Request) {
	var id string
	for term := range strings.SplitSeq(r.URL.Query().Get("sysparm_query"), "^") {
		switch {
		case strings.HasPrefix(term, "element_id="):
			id = strings.TrimPrefix(term, "element_id=")
		case term != "elementINcomments,work_notes" && term != "ORDERBYDESCsys_created_on":
			refuse(w, http.StatusBadRequest, "Invalid query detected", term)
			return
		}
	}
	limit, err := strconv.Atoi(r.URL.Query().Get("sysparm_limit"))
	if err != nil {
		refuse(w, http.StatusBadRequest, "Invalid limit", err.Error())
		return
	}
	offset, err := strconv.Atoi(r.URL.Query().Get("sysparm_offset"))
	if err != nil {
		refuse(w, http.StatusBadRequest, "Invalid offset", err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := []map[string]string{}
	for _, n := range slices.Backward(s.notes) {
		if n.sysID != id {
			continue
		}
		if offset--; offset < 0 && len(found) < limit {
			found = append(found, map[string]string{
				"sys_id": n.id, "element_id": n.sysID, "value": n.text, "sys_created_by": n.by, "sys_created_on": n.on,
			})
		}
	}
	ticketserver.Answer(w, http.StatusOK, map[string]any{"result": found})
}

// Notes returns the number of comments and work notes of an incident.
func (s *Server) Notes(number string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.incidents {
		for _, note := range s.notes {
			if i["number"] == number && note.sysID == i["sys_id"] {
				n++
			}
		}
	}
	return n
}

// Change sets columns of an incident, as a person does. The column locked refuses later changes.
func (s *Server) Change(number string, columns Incident) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.incidents {
		if i["number"] == number {
			maps.Copy(i, columns)
			i["sys_updated_on"] = s.now()
		}
	}
}

func (s *Server) now() string { return s.o.Now().UTC().Format(time.DateTime) }

// Delete deletes an incident.
func (s *Server) Delete(number string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.incidents = slices.DeleteFunc(s.incidents, func(i Incident) bool { return i["number"] == number })
}
