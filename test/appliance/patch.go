package appliance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Patch is a received PATCH of detections, refused or not.
type Patch struct {
	Path   string // below /api/v1
	Body   []byte // not to be modified
	Status int    // of the response, even if that was lost
	// Made are the versions that it created, in no particular order; none if it was
	// refused.
	Made []*Version
}

// Patches returns every PATCH of detections, in the order in which they took effect. It
// is empty if Options.NoHistory is set.
func (a *Appliance) Patches() []Patch {
	a.store.RLock()
	defer a.store.RUnlock()
	return slices.Clone(a.store.patches)
}

// patching serves a PATCH with serve, which is called with the store locked, and records
// it.
func (a *Appliance) patching(serve func(*request, *object) ([]*Version, answer)) func(*request) answer {
	return func(r *request) answer {
		b, err := r.body()
		if err != nil {
			return badRequest(err)
		}
		body, err := parseObject(b)
		a.store.Lock()
		defer a.store.Unlock()
		var made []*Version
		var ans answer
		if err == nil {
			made, ans = serve(r, body)
		} else {
			ans = badRequest(err)
		}
		if !a.options.NoHistory {
			path := strings.TrimPrefix(r.URL.Path, apiRoot)
			a.store.patches = append(a.store.patches, Patch{Path: path, Body: b, Status: ans.status, Made: made})
		}
		return ans
	}
}

// patchDetection serves PATCH /detections/{id}. The store must be locked.
func (a *Appliance) patchDetection(r *request, body *object) ([]*Version, answer) {
	p, err := parsePatch(body)
	if err != nil {
		return nil, badRequest(err)
	}
	v := a.store.last(r.id)
	if v == nil {
		return nil, unknownDetection(r.id)
	}
	return a.applyPatch([]*Version{v}, p)
}

// patchTickets serves PATCH /detections/tickets: all detections with the ticket change at
// once. The store must be locked.
func (a *Appliance) patchTickets(_ *request, body *object) ([]*Version, answer) {
	var ticketID string
	if !body.take("ticket_id", &ticketID) || ticketID == "" {
		return nil, badRequest(errors.New("ticket_id: must be a string"))
	}
	if _, ok := body.fields["participants"]; ok {
		return nil, badRequest(errors.New("unknown field participants"))
	}
	p, err := parsePatch(body)
	if err != nil {
		return nil, badRequest(err)
	}
	if !a.store.ticketing {
		return nil, ticketingOff()
	}
	var tracked []*Version
	for _, v := range a.store.current {
		if v.TicketID == ticketID {
			tracked = append(tracked, v)
		}
	}
	if tracked == nil {
		return nil, notFound("no detection has the ticket %s", ticketID)
	}
	return a.applyPatch(tracked, p)
}

// applyPatch applies p to all of the versions or to none. The store must be locked.
func (a *Appliance) applyPatch(versions []*Version, p patch) ([]*Version, answer) {
	detections := make([]Detection, len(versions))
	for i, v := range versions {
		detections[i] = v.Detection()
		if err := p.apply(&detections[i]); err != nil {
			return nil, unprocessable("%v", err)
		}
	}
	modTime := a.millis()
	made := make([]*Version, len(versions))
	for i := range detections {
		detections[i].ModTime = modTime
		made[i] = a.show(&detections[i], a.options.User)
	}
	a.logAPI("Modify", fmt.Sprintf("Changed %d detections", len(versions)))
	return made, noContent()
}

// ticketingOff refuses requests that require external ticket tracking while that is
// disabled.
func ticketingOff() answer { return unprocessable("external ticket tracking is not enabled") }

// patch is the body of a PATCH. nil: the field is not there; Null: it is null.
type patch struct {
	ticketID, assignee, status, resolution *Text
	participants                           []Participant // id, usernames and origins alone
}

func parsePatch(body *object) (patch, error) {
	var p patch
	text := func(name string, into **Text, allowed func(string) bool) {
		var value Text
		if !body.take(name, &value) {
			return
		}
		if allowed != nil && value != Null && !allowed(string(value)) {
			body.fail("%s: %q is not allowed", name, value)
		}
		*into = &value
	}
	text("ticket_id", &p.ticketID, nil)
	text("assignee", &p.assignee, nil)
	text("status", &p.status, isStatus)
	text("resolution", &p.resolution, isResolution)

	var participants []object
	body.take("participants", &participants)
	for i, fields := range participants {
		var m Participant
		if !fields.take("id", &m.ID) {
			fields.fail("id: a number is due")
		}
		fields.take("usernames", &m.Usernames)
		fields.take("origins", &m.Origins)
		if err := fields.end(""); err != nil {
			body.fail("participants[%d]: %w", i, err)
		}
		p.participants = append(p.participants, m)
	}
	return p, body.end("")
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
