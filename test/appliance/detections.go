package appliance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"ndrbridge/test/appliance/rest"
)

// detectionHandlers returns the handlers of detections. What they show follows the tuning
// rules.
func (a *Appliance) detectionHandlers() map[string]handler {
	handlers := map[string]handler{
		"POST /detections/search":       a.searchDetections,
		"GET /detections":               a.randomDetections,
		"PATCH /detections/tickets":     a.patching(a.patchTickets),
		"GET /detections/{id}":          a.getDetection,
		"PATCH /detections/{id}":        a.patching(a.patchDetection),
		"GET /detections/{id}/related":  a.relatedDetections,
		"GET /detections/{id}/notes":    a.getNote,
		"PUT /detections/{id}/notes":    a.putNote,
		"DELETE /detections/{id}/notes": a.deleteNote,
	}
	for name, serve := range handlers {
		handlers[name] = func(r *request) rest.Answer {
			a.followGroups()
			return serve(r)
		}
	}
	return handlers
}

// visible returns the version of a detection that a request sees, or nil. The store must be
// locked.
func (a *Appliance) visible(id, now int64) *Version {
	if a.store.at(now).has(id) {
		return nil
	}
	return a.store.last(id)
}

// searchDetections serves POST /detections/search.
func (a *Appliance) searchDetections(r *request) rest.Answer {
	q, err := a.parseSearch(r.Request)
	if err != nil {
		return rest.BadRequest(err)
	}
	limit, err := r.limit(q.limit)
	if err != nil {
		return rest.BadRequest(err)
	}
	a.store.RLock()
	found := a.store.find(&q, limit, a.store.at(r.Now), r.behaviour, a.options.Seed)
	a.store.RUnlock()
	if q.idOnly {
		ids := make([]int64, len(found))
		for i, v := range found {
			ids[i] = v.ID
		}
		return rest.JSON(http.StatusOK, ids)
	}
	return a.detections(found, r.behaviour)
}

// limit returns the number of detections to return for a requested limit, which may be
// absent.
func (r *request) limit(asked *whole) (int, error) {
	limit := defaultLimit
	if asked != nil {
		limit = int(*asked)
		if refused := r.behaviour.LimitRefused; refused > 0 && limit > refused {
			return 0, fmt.Errorf("limit: must not be greater than %d", refused)
		}
	}
	return r.cap(limit), nil
}

func (a *Appliance) detections(found []*Version, f behaviour) rest.Answer {
	elements := make([][]byte, len(found))
	for i, v := range found {
		elements[i] = a.look(v, f)
	}
	return rest.Array(elements)
}

// look returns v as the current request sees it.
func (a *Appliance) look(v *Version, f behaviour) []byte {
	if f.ChangingLinks {
		return withLinkTimes(v.JSON, a.Clock().Unix())
	}
	return v.JSON
}

// randomDetections serves GET /detections: a random selection.
func (a *Appliance) randomDetections(r *request) rest.Answer {
	var asked *whole
	if text := r.URL.Query().Get("limit"); text != "" {
		asked = new(whole)
		if err := json.Unmarshal([]byte(text), asked); err != nil {
			return rest.BadRequest(fmt.Errorf("limit: %w", err))
		}
	}
	limit, err := r.limit(asked)
	if err != nil {
		return rest.BadRequest(err)
	}
	a.store.RLock()
	current, h := a.store.current, a.store.at(r.Now)
	if h.active != nil {
		current = slices.DeleteFunc(slices.Clone(current), func(v *Version) bool { return h.has(v.ID) })
	}
	selected := make([]*Version, min(limit, len(current)))
	a.selection.Lock()
	for i, at := range a.selection.Perm(len(current))[:len(selected)] {
		selected[i] = current[at]
	}
	a.selection.Unlock()
	a.store.RUnlock()
	return a.detections(selected, r.behaviour)
}

// getDetection serves GET /detections/{id}.
func (a *Appliance) getDetection(r *request) rest.Answer {
	a.store.RLock()
	v := a.visible(r.ID("id"), r.Now)
	a.store.RUnlock()
	if v == nil {
		return unknownDetection(r.ID("id"))
	}
	return rest.Answer{Status: http.StatusOK, ContentType: rest.TypeJSON, Parts: [][]byte{a.look(v, r.behaviour)}}
}

func unknownDetection(id int64) rest.Answer {
	return rest.NotFound("no detection has the id %d", id)
}

// maxRelated is the number of related detections that are returned at most.
const maxRelated = 1000

// relatedDetections serves GET /detections/{id}/related: those with a participant in common.
func (a *Appliance) relatedDetections(r *request) rest.Answer {
	query := r.URL.Query()
	from, until, err := a.rangeOf(query)
	if err != nil {
		return rest.BadRequest(err)
	}
	a.store.RLock()
	defer a.store.RUnlock()
	h := a.store.at(r.Now)
	subject := a.visible(r.ID("id"), r.Now)
	if subject == nil {
		return unknownDetection(r.ID("id"))
	}
	wanted := participantKeys(subject)
	var found []*Version
	for _, v := range a.store.current {
		switch {
		case v == subject, h.has(v.ID):
		case from != nil && v.EndTime != 0 && v.EndTime < *from:
		case until != nil && v.StartTime >= *until:
		case !slices.ContainsFunc(wanted, func(key participantKey) bool { return bytes.Contains(v.JSON, key.text) }):
			// Decoding it would take much longer.
		case slices.ContainsFunc(participantKeys(v), func(key participantKey) bool {
			return slices.ContainsFunc(wanted, key.equal)
		}):
			found = append(found, v)
		}
	}
	slices.SortFunc(found, order(nil).comparer())
	return a.detections(found[:min(len(found), r.cap(maxRelated))], r.behaviour)
}

// rangeOf returns the range of time in a query; nil: there is no bound.
func (a *Appliance) rangeOf(query url.Values) (from, until *int64, err error) {
	for name, into := range map[string]**int64{"from": &from, "until": &until} {
		if !query.Has(name) {
			continue
		}
		at, err := rest.ParseTime(json.RawMessage(query.Get(name)), a.Clock())
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		*into = &at
	}
	return from, until, nil
}

// participantKey identifies a participant across detections.
type participantKey struct {
	device  int64  // 0: it is no device
	address string // empty: unknown
	text    []byte // is in the JSON of every detection with the participant
}

// equal reports whether both are the same device or have the same address.
func (k participantKey) equal(other participantKey) bool {
	return k.device != 0 && k.device == other.device || k.address != "" && k.address == other.address
}

func participantKeys(v *Version) []participantKey {
	d := v.Detection()
	var keys []participantKey
	for _, p := range d.Participants {
		if p.ObjectType == "device" && p.ObjectID != 0 {
			keys = append(keys, participantKey{device: p.ObjectID, text: strconv.AppendInt([]byte(`"object_id":`), p.ObjectID, 10)})
		}
		if p.ObjectValue != "" {
			keys = append(keys, participantKey{address: p.ObjectValue, text: []byte(`"object_value":"` + p.ObjectValue + `"`)})
		}
	}
	return keys
}

// cap returns the maximum number of rows in the response to a request with a limit.
func (r *request) cap(limit int) int {
	if r.behaviour.LimitCap > 0 {
		return min(limit, r.behaviour.LimitCap)
	}
	return limit
}
