package appliance

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"ndrbridge/test/appliance/rest"
)

// searchDetections serves POST /detections/search.
func (a *Appliance) searchDetections(r *request) rest.Answer {
	body, err := r.object()
	if err != nil {
		return rest.BadRequest(err)
	}
	q, err := a.parseSearch(body, r.Caller.Name, a.Clock())
	if err != nil {
		return rest.BadRequest(err)
	}
	limit, err := r.limit(q.limit)
	if err != nil {
		return rest.BadRequest(err)
	}
	a.store.RLock()
	found := a.store.find(&q, limit, r.behaviour, a.options.Seed)
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
func (r *request) limit(asked *int) (int, error) {
	limit := defaultLimit
	if asked != nil {
		limit = *asked
		if err := checkLimit(asked); err != nil {
			return 0, err
		}
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
	var asked *int
	if text := r.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return rest.BadRequest(errors.New("limit: wrong type"))
		}
		asked = &n
	}
	limit, err := r.limit(asked)
	if err != nil {
		return rest.BadRequest(err)
	}
	a.store.RLock()
	current := a.store.current
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
	v := a.store.last(r.ID("id"))
	a.store.RUnlock()
	if v == nil {
		return unknownDetection(r.ID("id"))
	}
	return rest.Answer{Status: http.StatusOK, ContentType: rest.TypeJSON, Parts: [][]byte{a.look(v, r.behaviour)}}
}

func unknownDetection(id int64) rest.Answer {
	return rest.NotFound("no detection has the id %d", id)
}
