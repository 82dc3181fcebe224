package appliance

import (
	"net/http"

	"ndrbridge/test/appliance/resource"
	"ndrbridge/test/appliance/rest"
)

// note is the note of a detection. Each has at most one, which is not part of the detection
// and does not change its mod_time. Its operations require external ticket tracking.
type note struct {
	Author     string `json:"author"`
	Note       string `json:"note"`
	UpdateTime int64  `json:"update_time"` // milliseconds since the epoch
}

func (a *Appliance) getNote(r *request) rest.Answer {
	a.store.RLock()
	defer a.store.RUnlock()
	if refused, ok := a.refuseNote(r); ok {
		return refused
	}
	n, ok := a.store.notes[r.ID("id")]
	if !ok {
		return noNote(r.ID("id"))
	}
	return rest.JSON(http.StatusOK, n)
}

// putNote sets the note of a detection. Of its fields, only the text is required.
func (a *Appliance) putNote(r *request) rest.Answer {
	body := r.Object()
	n := note{Author: r.Caller.Name, Note: resource.Text(body, "note"), UpdateTime: r.Now}
	if _, ok := body["author"]; ok {
		n.Author = resource.Text(body, "author")
	}
	if _, ok := body["update_time"]; ok {
		n.UpdateTime = resource.Number(body, "update_time")
	}
	a.store.Lock()
	defer a.store.Unlock()
	if refused, ok := a.refuseNote(r); ok {
		return refused
	}
	a.store.notes[r.ID("id")] = n
	return rest.NoContent()
}

func (a *Appliance) deleteNote(r *request) rest.Answer {
	a.store.Lock()
	defer a.store.Unlock()
	if refused, ok := a.refuseNote(r); ok {
		return refused
	}
	if _, ok := a.store.notes[r.ID("id")]; !ok {
		return noNote(r.ID("id"))
	}
	delete(a.store.notes, r.ID("id"))
	return rest.NoContent()
}

// refuseNote returns the reason why a detection cannot have a note, if there is one. The
// store must be locked.
func (a *Appliance) refuseNote(r *request) (refused rest.Answer, ok bool) {
	switch {
	case !a.store.ticketing:
		return ticketingOff(), true
	case a.visible(r.ID("id"), r.Now) == nil:
		return unknownDetection(r.ID("id")), true
	}
	return rest.Answer{}, false
}

func noNote(id int64) rest.Answer {
	return rest.NotFound("detection %d has no note", id)
}
