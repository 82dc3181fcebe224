package appliance

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

// searchDetections serves POST /detections/search.
func (a *Appliance) searchDetections(r *request) answer {
	body, err := r.object()
	if err != nil {
		return badRequest(err)
	}
	q, err := a.parseSearch(body, a.Clock())
	if err != nil {
		return badRequest(err)
	}
	limit, err := r.limit(q.limit)
	if err != nil {
		return badRequest(err)
	}
	a.store.RLock()
	found := a.store.find(&q, limit, r.behaviour, a.options.Seed)
	a.store.RUnlock()
	if q.idOnly {
		ids := make([]int64, len(found))
		for i, v := range found {
			ids[i] = v.ID
		}
		return jsonAnswer(http.StatusOK, ids)
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

func (a *Appliance) detections(found []*Version, f behaviour) answer {
	elements := make([][]byte, len(found))
	for i, v := range found {
		elements[i] = a.look(v, f)
	}
	return arrayAnswer(elements)
}

// look returns v as the current request sees it.
func (a *Appliance) look(v *Version, f behaviour) []byte {
	if f.ChangingLinks {
		return withLinkTimes(v.JSON, a.Clock().Unix())
	}
	return v.JSON
}

// randomDetections serves GET /detections: a random selection.
func (a *Appliance) randomDetections(r *request) answer {
	var asked *int
	if text := r.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return badRequest(errors.New("limit: wrong type"))
		}
		asked = &n
	}
	limit, err := r.limit(asked)
	if err != nil {
		return badRequest(err)
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
func (a *Appliance) getDetection(r *request) answer {
	a.store.RLock()
	v := a.store.last(r.id)
	a.store.RUnlock()
	if v == nil {
		return unknownDetection(r.id)
	}
	return answer{status: http.StatusOK, contentType: typeJSON, parts: [][]byte{a.look(v, r.behaviour)}}
}

func unknownDetection(id int64) answer {
	return notFound("no detection has the id %d", id)
}
