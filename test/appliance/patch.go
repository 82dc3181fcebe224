package appliance

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"ndrbridge/test/appliance/openapi"
	"ndrbridge/test/appliance/resource"
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
func (a *Appliance) patching(serve func(*request) ([]*Version, rest.Answer)) handler {
	return func(r *request) rest.Answer {
		a.store.Lock()
		defer a.store.Unlock()
		made, ans := serve(r)
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
func (a *Appliance) patchDetection(r *request) ([]*Version, rest.Answer) {
	p := parsePatch(r.Object())
	v := a.visible(r.ID("id"), r.Now)
	switch {
	case v == nil:
		return nil, unknownDetection(r.ID("id"))
	case p.ticketID != nil && !a.store.ticketing:
		return nil, ticketingOff()
	}
	return a.applyPatch(r.Caller.Name, []*Version{v}, p)
}

// patchTickets serves PATCH /detections/tickets: all detections with the ticket change at
// once. The store must be locked.
func (a *Appliance) patchTickets(r *request) ([]*Version, rest.Answer) {
	if !a.store.ticketing {
		return nil, ticketingOff()
	}
	p := parsePatch(r.Object())
	ticketID := p.ticketID.String()
	p.ticketID = nil // it stays
	h := a.store.at(r.Now)
	var tracked []*Version
	for _, v := range a.store.current {
		if v.TicketID == ticketID && !h.has(v.ID) {
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

// parsePatch returns the patch in a body, which fits the description.
func parsePatch(body map[string]any) patch {
	text := func(field string) *Text {
		value, ok := body[field]
		switch value := value.(type) {
		case string:
			return new(Text(value))
		default:
			if ok {
				return new(Null)
			}
			return nil
		}
	}
	p := patch{ticketID: text("ticket_id"), assignee: text("assignee"), status: text("status"), resolution: text("resolution")}
	participants, _ := body["participants"].([]any)
	for _, participant := range participants {
		fields, _ := participant.(map[string]any)
		p.participants = append(p.participants, Participant{
			ID: resource.Number(fields, "id"), Usernames: textsOf(fields["usernames"]), Origins: textsOf(fields["origins"]),
		})
	}
	return p
}

// textsOf returns the strings of an array; nil: it is not there.
func textsOf(value any) []string {
	list, ok := value.([]any)
	if !ok {
		return nil
	}
	found := make([]string, len(list))
	for i, element := range list {
		found[i], _ = element.(string)
	}
	return found
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
