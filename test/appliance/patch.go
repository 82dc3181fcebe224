package appliance

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"ndrbridge/test/appliance/openapi"
	"ndrbridge/test/appliance/rest"
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
func (a *Appliance) patching(serve func(*request, *object) ([]*Version, rest.Answer)) func(*request) rest.Answer {
	return func(r *request) rest.Answer {
		body, err := r.object()
		a.store.Lock()
		defer a.store.Unlock()
		var made []*Version
		var ans rest.Answer
		if err == nil {
			made, ans = serve(r, body)
		} else {
			ans = rest.BadRequest(err)
		}
		a.keepPatch(r, ans.Status, made)
		return ans
	}
}

// keepPatch records a PATCH of detections. The store must be locked.
func (a *Appliance) keepPatch(r *request, status int, made []*Version) {
	if !a.options.NoHistory {
		path := strings.TrimPrefix(r.URL.Path, openapi.Root)
		a.store.patches = append(a.store.patches, Patch{Path: path, Body: r.Data, Status: status, Made: made})
	}
}

// keepRefused records a request that the description refused if it is a PATCH of detections.
func (a *Appliance) keepRefused(r *request, status int) {
	if r.Method != http.MethodPatch || r.Operation.Tag != "Detections" {
		return
	}
	a.store.Lock()
	defer a.store.Unlock()
	a.keepPatch(r, status, nil)
}

// patchDetection serves PATCH /detections/{id}. The store must be locked.
func (a *Appliance) patchDetection(r *request, body *object) ([]*Version, rest.Answer) {
	p, err := parsePatch(body)
	if err != nil {
		return nil, rest.BadRequest(err)
	}
	v := a.store.last(r.ID("id"))
	if v == nil {
		return nil, unknownDetection(r.ID("id"))
	}
	return a.applyPatch(r.Caller.Name, []*Version{v}, p)
}

// patchTickets serves PATCH /detections/tickets: all detections with the ticket change at
// once. The store must be locked.
func (a *Appliance) patchTickets(r *request, body *object) ([]*Version, rest.Answer) {
	var ticketID string
	if !body.take("ticket_id", &ticketID) || ticketID == "" {
		return nil, rest.BadRequest(errors.New("ticket_id: must be a string"))
	}
	if _, ok := body.fields["participants"]; ok {
		return nil, rest.BadRequest(errors.New("unknown field participants"))
	}
	p, err := parsePatch(body)
	if err != nil {
		return nil, rest.BadRequest(err)
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
		return nil, rest.NotFound("no detection has the ticket %s", ticketID)
	}
	return a.applyPatch(r.Caller.Name, tracked, p)
}

// applyPatch applies p for a user to all of the versions or to none. The store must be locked.
func (a *Appliance) applyPatch(by string, versions []*Version, p patch) ([]*Version, rest.Answer) {
	detections := make([]Detection, len(versions))
	for i, v := range versions {
		detections[i] = v.Detection()
		if err := p.apply(&detections[i]); err != nil {
			return nil, rest.Unprocessable("%v", err)
		}
	}
	modTime := a.millis()
	made := make([]*Version, len(versions))
	for i := range detections {
		detections[i].ModTime = modTime
		made[i] = a.show(&detections[i], by)
	}
	answer := rest.NoContent()
	answer.Audit = &rest.Audit{Operation: "Modify", Component: "REST API", Details: fmt.Sprintf("Changed %d detections", len(versions))}
	return made, answer
}

// ticketingOff refuses requests that require external ticket tracking while that is
// disabled.
func ticketingOff() rest.Answer { return rest.Unprocessable("external ticket tracking is not enabled") }

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
