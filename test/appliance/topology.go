package appliance

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"time"

	"ndrbridge/test/appliance/resource"
	"ndrbridge/test/appliance/rest"
	"ndrbridge/test/appliance/topology"
)

// newActivityMaps sets the activity maps.
func (a *Appliance) newActivityMaps() {
	a.resources.mapSharing = resource.Sharing{Rights: []string{"view", "edit", "share", "delete"}, IsUser: a.isUser}
	sharing := a.resources.mapSharing
	a.resources.activityMaps = resource.NewCollection(a.description, resource.Kind{
		Path: "/activitymaps", Name: "activity map", Component: "ActivityMap", Unique: []string{"short_code"}, Max: 100,
		Complete: func(r *rest.Request, object resource.Object) {
			sharing.Complete(r, object)
			if object["short_code"] == nil {
				object["short_code"] = a.resources.codes.next()
			}
		},
		Check: func(r *rest.Request, before, object resource.Object) error {
			if before != nil && reflect.DeepEqual(before["walks"], object["walks"]) {
				return nil // a query reports what was deleted since
			}
			walks, err := walksOf(object)
			if err != nil {
				return err
			}
			return topology.Check(network{a, r.Now}, walks)
		},
		Show: sharing.Show, Deny: sharing.Deny,
	})
}

// isUser reports whether there is a user with a name, who is enabled.
func (a *Appliance) isUser(name string) bool {
	_, ok := a.control.Caller(name)
	return ok
}

// network is what activity maps show at a time, in milliseconds.
type network struct {
	*Appliance
	now int64
}

// Devices implements topology.Network. The activity of devices in standard and advanced
// analysis is known.
func (n network) Devices() []topology.Device {
	var found []topology.Device
	for _, id := range n.resources.population.IDs() {
		d := n.resources.population.Get(id, n.now)
		if analysis := d.Fields["analysis"]; analysis == "standard" || analysis == "advanced" {
			found = append(found, topology.Device{ID: id, Categories: d.Categories, From: d.Discovered, Until: d.LastSeen})
		}
	}
	return found
}

// HasDevice implements topology.Network.
func (n network) HasDevice(id int64) bool { return n.resources.devices.Has(id) }

// HasGroup implements topology.Network.
func (n network) HasGroup(id int64) bool { return n.resources.deviceGroups.Has(id) }

// Members implements topology.Network.
func (n network) Members(group int64) []int64 { return n.members(group, n.now) }

// topologyHandlers returns the handlers of activity maps.
func (a *Appliance) topologyHandlers() rest.Handlers {
	handlers := a.resources.activityMaps.Handlers()
	maps.Copy(handlers, a.resources.mapSharing.Handlers(a.resources.activityMaps))
	maps.Copy(handlers, rest.Handlers{
		"POST /activitymaps/query":      a.queryTopology,
		"POST /activitymaps/{id}/query": a.queryMap,
	})
	return handlers
}

func walksOf(object resource.Object) ([]topology.Walk, error) {
	encoded, err := json.Marshal(object["walks"])
	if err != nil {
		return nil, fmt.Errorf("walks: %w", err)
	}
	var walks []topology.Walk
	if err := json.Unmarshal(encoded, &walks); err != nil {
		return nil, fmt.Errorf("walks: %w", err)
	}
	return walks, nil
}

// queryTopology serves POST /activitymaps/query.
func (a *Appliance) queryTopology(r *rest.Request) rest.Answer {
	walks, err := walksOf(r.Object())
	if err == nil {
		err = topology.Check(network{a, r.Now}, walks)
	}
	if err != nil {
		return rest.BadRequest(err)
	}
	return a.query(r, topology.Query{Walks: walks, Weighting: resource.Text(r.Object(), "weighting")})
}

// queryMap serves POST /activitymaps/{id}/query.
func (a *Appliance) queryMap(r *rest.Request) rest.Answer {
	object := a.resources.activityMaps.Visible(r)
	if object == nil {
		return a.resources.activityMaps.Missing(r)
	}
	walks, err := walksOf(object)
	if err != nil {
		return rest.BadRequest(err)
	}
	return a.query(r, topology.Query{Walks: walks, Weighting: resource.Text(object, "weighting")})
}

// query answers a query with the range and the annotations of a request.
func (a *Appliance) query(r *rest.Request, q topology.Query) rest.Answer {
	var body struct {
		From        json.RawMessage `json:"from"`
		Until       json.RawMessage `json:"until"`
		Annotations []string        `json:"edge_annotations"`
	}
	if err := r.Decode(&body); err != nil {
		return rest.BadRequest(err)
	}
	now := time.UnixMilli(r.Now)
	var err error
	if q.From, err = rest.ParseTime(body.From, now); err != nil {
		return rest.BadRequest(fmt.Errorf("from: %w", err))
	}
	q.Until = r.Now
	if body.Until != nil {
		if q.Until, err = rest.ParseTime(body.Until, now); err != nil {
			return rest.BadRequest(fmt.Errorf("until: %w", err))
		}
	}
	if q.Until < q.From {
		return rest.BadRequest(errors.New("until: it must not be before from"))
	}
	q.Annotations = body.Annotations
	return rest.JSON(http.StatusOK, topology.Run(network{a, r.Now}, q, r.Now))
}
