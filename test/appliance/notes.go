package appliance

import (
	"errors"
	"net/http"
)

// note is what somebody wrote down about a detection. Each has one at most.
type note struct {
	Author     string `json:"author"`
	Note       string `json:"note"`
	UpdateTime int64  `json:"update_time"` // milliseconds since the epoch
}

// noteRoutes are the operations of notes, which need external ticket tracking. A
// note is no part of its detection: it leaves mod_time as it is.
func (a *Appliance) noteRoutes() []route {
	const path = "/detections/{id}/notes"
	return []route{
		{http.MethodGet, path, a.getNote, ""},
		{http.MethodPut, path, a.putNote, typeJSON},
		{http.MethodDelete, path, a.deleteNote, ""},
	}
}

func (a *Appliance) getNote(r *request) answer {
	a.store.RLock()
	defer a.store.RUnlock()
	if refused, ok := a.refuseNote(r.id); ok {
		return refused
	}
	n, ok := a.store.notes[r.id]
	if !ok {
		return noNote(r.id)
	}
	return jsonAnswer(http.StatusOK, n)
}

// putNote takes the fields of a note, whose text alone is due.
func (a *Appliance) putNote(r *request) answer {
	body, err := r.object()
	if err != nil {
		return badRequest(err)
	}
	n := note{Author: a.options.User, UpdateTime: a.millis()}
	ok, noteErr := body.take("note", &n.Note)
	if !ok {
		noteErr = errors.New("note: a string is due")
	}
	_, authorErr := body.takeOptional("author", &n.Author)
	_, timeErr := body.takeOptional("update_time", &n.UpdateTime)
	if err := firstOf([]error{noteErr, authorErr, timeErr, body.end("")}); err != nil {
		return badRequest(err)
	}
	a.store.Lock()
	defer a.store.Unlock()
	if refused, ok := a.refuseNote(r.id); ok {
		return refused
	}
	a.store.notes[r.id] = n
	return noContent()
}

func (a *Appliance) deleteNote(r *request) answer {
	a.store.Lock()
	defer a.store.Unlock()
	if refused, ok := a.refuseNote(r.id); ok {
		return refused
	}
	if _, ok := a.store.notes[r.id]; !ok {
		return noNote(r.id)
	}
	delete(a.store.notes, r.id)
	return noContent()
}

// refuseNote says why a detection can have no note, with the store locked.
func (a *Appliance) refuseNote(id int64) (refused answer, ok bool) {
	switch {
	case !a.store.ticketing:
		return ticketingOff(), true
	case a.store.last(id) == nil:
		return unknownDetection(id), true
	}
	return answer{}, false
}

func noNote(id int64) answer {
	return problem(http.StatusNotFound, "detection %d has no note", id)
}
