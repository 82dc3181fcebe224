package appliance

import "net/http"

// note is the note of a detection. Each has at most one, which is not part of the detection
// and does not change its mod_time. Its operations require external ticket tracking.
type note struct {
	Author     string `json:"author"`
	Note       string `json:"note"`
	UpdateTime int64  `json:"update_time"` // milliseconds since the epoch
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

// putNote sets the note of a detection. Of its fields, only the text is required.
func (a *Appliance) putNote(r *request) answer {
	body, err := r.object()
	if err != nil {
		return badRequest(err)
	}
	n := note{Author: a.options.User, UpdateTime: a.millis()}
	if !body.take("note", &n.Note) {
		body.fail("note: must be a string")
	}
	body.takeOptional("author", &n.Author)
	body.takeOptional("update_time", &n.UpdateTime)
	if err := body.end(""); err != nil {
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

// refuseNote returns the reason why a detection cannot have a note, if there is one. The
// store must be locked.
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
	return notFound("detection %d has no note", id)
}
