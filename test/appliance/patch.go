package appliance

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// patchDetection serves PATCH /detections/{id}.
func (a *Appliance) patchDetection(r *request) answer {
	body, err := r.object()
	if err != nil {
		return badRequest(err)
	}
	p, err := parsePatch(body)
	if err != nil {
		return badRequest(err)
	}
	a.store.Lock()
	defer a.store.Unlock()
	v := a.store.last(r.id)
	if v == nil {
		return unknownDetection(r.id)
	}
	return a.applyPatch([]*Version{v}, p)
}

// patchTickets serves PATCH /detections/tickets: everything that has the ticket
// changes at once.
func (a *Appliance) patchTickets(r *request) answer {
	body, err := r.object()
	if err != nil {
		return badRequest(err)
	}
	var ticketID string
	if _, err := body.take("ticket_id", &ticketID); err != nil || ticketID == "" {
		return badRequest(errors.New("ticket_id: a string is due"))
	}
	if _, ok := body["participants"]; ok {
		return badRequest(errors.New("unknown field participants"))
	}
	p, err := parsePatch(body)
	if err != nil {
		return badRequest(err)
	}
	a.store.Lock()
	defer a.store.Unlock()
	if !a.store.ticketing {
		return unprocessable("external ticket tracking is not enabled")
	}
	var tracked []*Version
	for _, v := range a.store.current {
		if v.TicketID == ticketID {
			tracked = append(tracked, v)
		}
	}
	if tracked == nil {
		return problem(http.StatusNotFound, "no detection has the ticket %s", ticketID)
	}
	return a.applyPatch(tracked, p)
}

// applyPatch applies p to all of the versions, or to none, with the store locked.
func (a *Appliance) applyPatch(versions []*Version, p patch) answer {
	detections := make([]Detection, len(versions))
	for i, v := range versions {
		detections[i] = v.Detection()
		if err := p.apply(&detections[i]); err != nil {
			return unprocessable("%v", err)
		}
	}
	modTime := a.millis()
	for i := range detections {
		detections[i].ModTime = modTime
		a.show(&detections[i])
	}
	a.logAPI("Modify", fmt.Sprintf("Changed %d detections", len(versions)))
	return noContent()
}

// patch is the body of a PATCH. nil: the field is not there; Null: it is null.
type patch struct {
	ticketID, assignee, status, resolution *Text
	participants                           []Participant // id, usernames and origins alone
}

func parsePatch(body object) (patch, error) {
	var p patch
	var errs []error
	text := func(name string, into **Text, allowed func(string) bool) {
		var value Text
		ok, err := body.take(name, &value)
		errs = append(errs, err)
		if !ok || err != nil {
			return
		}
		if allowed != nil && value != Null && !allowed(string(value)) {
			errs = append(errs, fmt.Errorf("%s: %q is not allowed", name, value))
		}
		*into = &value
	}
	text("ticket_id", &p.ticketID, nil)
	text("assignee", &p.assignee, nil)
	text("status", &p.status, isStatus)
	text("resolution", &p.resolution, isResolution)

	var participants []object
	_, err := body.take("participants", &participants)
	errs = append(errs, err)
	for i, fields := range participants {
		var m Participant
		ok, idErr := fields.take("id", &m.ID)
		if !ok {
			idErr = errors.New("id: a number is due")
		}
		_, usernamesErr := fields.take("usernames", &m.Usernames)
		_, originsErr := fields.take("origins", &m.Origins)
		if err := firstOf([]error{idErr, usernamesErr, originsErr, fields.end("")}); err != nil {
			errs = append(errs, fmt.Errorf("participants[%d]: %w", i, err))
		}
		p.participants = append(p.participants, m)
	}
	errs = append(errs, body.end(""))
	return p, firstOf(errs)
}

// apply changes d. An error leaves it half changed.
func (p patch) apply(d *Detection) error {
	if p.ticketID != nil {
		d.TicketID = TicketID{ID: p.ticketID.String()}
	}
	if p.assignee != nil {
		d.Assignee = *p.assignee
	}
	if p.status != nil {
		d.Status = *p.status
		if d.Status != "closed" {
			d.Resolution = Null
		}
	}
	if p.resolution != nil {
		if *p.resolution != Null && d.Status != "closed" {
			return errors.New("resolution: only a closed detection has one")
		}
		d.Resolution = *p.resolution
	}
	for _, patched := range p.participants {
		i := slices.IndexFunc(d.Participants, func(m Participant) bool { return m.ID == patched.ID })
		if i < 0 {
			return fmt.Errorf("participants: none has the id %d, and none can be added", patched.ID)
		}
		if patched.Usernames != nil {
			d.Participants[i].Usernames = patched.Usernames
		}
		if patched.Origins != nil {
			d.Participants[i].Origins = patched.Origins
		}
	}
	return nil
}
