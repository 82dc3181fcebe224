package appliance

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"strconv"
	"time"

	"ndrbridge/test/appliance/devices"
	"ndrbridge/test/appliance/resource"
	"ndrbridge/test/appliance/rest"
)

// deviceHandlers returns the handlers of devices, and of what groups and marks them.
func (a *Appliance) deviceHandlers() rest.Handlers {
	handlers := rest.Handlers{
		"GET /devices":                   a.listDevices,
		"POST /devices/search":           a.searchDevices,
		"GET /devices/{id}":              a.ofDevice(a.getDevice),
		"PATCH /devices/{id}":            a.ofDevice(a.patchDevice),
		"GET /devices/{id}/activity":     a.ofDevice(a.deviceActivity),
		"GET /devices/{id}/dashboards":   a.ofDevice(a.deviceDashboards),
		"GET /devices/{id}/dnsnames":     a.deviceWindows("dns_name", func(d *devices.Device) []devices.Window { return d.Names }),
		"GET /devices/{id}/ipaddrs":      a.deviceWindows("ipaddr", func(d *devices.Device) []devices.Window { return d.Addresses }),
		"GET /devices/{id}/software":     a.ofDevice(a.deviceSoftware),
		"GET /devicegroups/{id}/devices": a.devicesIn("device group", a.resources.deviceGroups, a.members),
		"GET /tags/{id}/devices":         a.devicesIn("tag", a.resources.tags, a.tagged),
	}
	for _, c := range []*resource.Collection{a.resources.deviceGroups, a.resources.tags, a.resources.networks, a.resources.triggers} {
		maps.Copy(handlers, c.Handlers())
	}
	for _, relation := range []*resource.Relation{a.resources.groupsOfDevices, a.resources.tagsOfDevices, a.resources.triggersOfDevices} {
		maps.Copy(handlers, relation.Handlers(false, a.description.Has))
	}
	handlers["GET /devices/{id}/devicegroups"] = a.ofDevice(a.groupsOfDevice)
	return handlers
}

// deviceSet is the devices as a side of relations.
type deviceSet struct{ *Appliance }

// Has implements resource.Set.
func (s deviceSet) Has(id int64) bool { return s.resources.population.Has(id) }

// Shown implements resource.Set.
func (s deviceSet) Shown(r *rest.Request, ids []int64) [][]byte {
	elements := make([][]byte, 0, len(ids))
	for _, id := range ids {
		if d := s.resources.population.Get(id, r.Now); d != nil {
			elements = append(elements, encodeDevice(d.Fields))
		}
	}
	return elements
}

// OnRemoval makes relations forget a device that a client defined and removed.
func (s deviceSet) OnRemoval(removed func(id int64)) {
	s.resources.customDevices.OnRemoval(func(number int64) { removed(devices.CustomID(number)) })
}

func encodeDevice(fields map[string]any) []byte {
	b, err := rest.Encode(fields)
	if err != nil {
		panic(err) // they are JSON values
	}
	return b
}

// device returns a device at the time now, in milliseconds, or nil if there is none with the id.
func (a *Appliance) device(id, now int64) *devices.Device {
	d := a.resources.population.Get(id, now)
	if d != nil {
		for _, tag := range a.resources.tagsOfDevices.Children(id) {
			d.Tags = append(d.Tags, resource.Text(a.resources.tags.Get(tag), "name"))
		}
	}
	return d
}

// seeDevices remembers what a detection shows of devices.
func (a *Appliance) seeDevices(d *Detection) {
	for _, p := range d.Participants {
		if p.ObjectType == "device" {
			a.resources.population.See(p.ObjectID, p.ObjectValue, p.Hostname.String(), d.StartTime, d.UpdateTime)
		}
	}
}

// ofDevice returns a handler for what is below a device, which must exist.
func (a *Appliance) ofDevice(serve func(*rest.Request, *devices.Device) rest.Answer) rest.Handler {
	return func(r *rest.Request) rest.Answer {
		d := a.device(r.ID("id"), r.Now)
		if d == nil {
			return rest.NotFound("no device has the id %d", r.ID("id"))
		}
		return serve(r, d)
	}
}

// deviceSelection says which devices a client asks for.
type deviceSelection struct {
	ids           []int64         // sorted; nil: all
	filter        *devices.Filter // nil: all
	from, until   int64           // when they were active
	limit, offset int64
	fields        map[string]bool // to return; nil: all
}

// selectDevices returns the devices of a selection, sorted by id. It stops early if ctx is done:
// then nobody waits for the answer.
func (a *Appliance) selectDevices(ctx context.Context, s deviceSelection, now int64) rest.Answer {
	if s.ids == nil {
		s.ids = a.resources.population.IDs()
	}
	if s.filter != nil {
		if ids, restricted := s.filter.IDs(); restricted {
			s.ids = ids
		}
	}
	elements := [][]byte{}
	for _, id := range s.ids {
		if int64(len(elements)) >= s.limit || ctx.Err() != nil {
			break
		}
		d := a.device(id, now)
		if d == nil || !d.ActiveIn(s.from, s.until) || s.filter != nil && !s.filter.Matches(d) {
			continue
		}
		if s.offset > 0 {
			s.offset--
			continue
		}
		if s.fields != nil {
			maps.DeleteFunc(d.Fields, func(name string, _ any) bool { return name != "id" && !s.fields[name] })
		}
		elements = append(elements, encodeDevice(d.Fields))
	}
	return rest.Array(elements)
}

// newSelection returns the selection of a request whose parameters, as text or as JSON, get
// returns; nil: there is none with the name.
func newSelection(get func(name string) any, now int64) (deviceSelection, error) {
	from, until, err := window(get, "active_from", "active_until", now)
	s := deviceSelection{from: from, until: until, limit: defaultLimit}
	for name, into := range map[string]*int64{"limit": &s.limit, "offset": &s.offset} {
		if value := get(name); value != nil {
			*into = resource.Number(resource.Object{name: json.Number(fmt.Sprint(value))}, name)
		}
	}
	return s, err
}

// window returns a range of time that a request asks for: without parameters, all of the past.
func window(get func(name string) any, from, until string, now int64) (start, end int64, err error) {
	start, end = math.MinInt64, now
	for name, into := range map[string]*int64{from: &start, until: &end} {
		value := get(name)
		if value == nil {
			continue
		}
		at, err := rest.ParseTime([]byte(fmt.Sprint(value)), time.UnixMilli(now))
		if err != nil {
			return 0, 0, fmt.Errorf("%s: %w", name, err)
		}
		*into = at
	}
	return start, end, nil
}

// inQuery returns the parameters of a request's query.
func inQuery(r *rest.Request) func(name string) any {
	query := r.URL.Query()
	return func(name string) any {
		if !query.Has(name) {
			return nil
		}
		return query.Get(name)
	}
}

// listDevices serves GET /devices.
func (a *Appliance) listDevices(r *rest.Request) rest.Answer {
	s, err := newSelection(inQuery(r), r.Now)
	if err != nil {
		return rest.BadRequest(err)
	}
	query := r.URL.Query()
	property := query.Get("search_type")
	if property == "" {
		property = "any"
	}
	s.filter, err = devices.ParseListing(property, query.Get("value"), func(text string) (int64, error) {
		return rest.ParseTime([]byte(text), time.UnixMilli(r.Now))
	})
	if err != nil {
		return rest.BadRequest(err)
	}
	return a.selectDevices(r.Context(), s, r.Now)
}

// searchDevices serves POST /devices/search.
func (a *Appliance) searchDevices(r *rest.Request) rest.Answer {
	body := r.Object()
	s, err := newSelection(func(name string) any { return body[name] }, r.Now)
	if err != nil {
		return rest.BadRequest(err)
	}
	if filter := body["filter"]; filter != nil {
		if s.filter, err = devices.ParseFilter(filter, r.Now); err != nil {
			return rest.BadRequest(err)
		}
	}
	if names, ok := body["result_fields"].([]any); ok {
		s.fields = make(map[string]bool, len(names))
		for _, name := range names {
			s.fields[name.(string)] = true
		}
	}
	return a.selectDevices(r.Context(), s, r.Now)
}

// getDevice serves GET /devices/{id}.
func (a *Appliance) getDevice(_ *rest.Request, d *devices.Device) rest.Answer {
	return rest.JSON(http.StatusOK, d.Fields)
}

// patchDevice serves PATCH /devices/{id}.
func (a *Appliance) patchDevice(r *rest.Request, d *devices.Device) rest.Answer {
	a.resources.population.Change(d.ID, r.Object(), r.Now)
	answer := rest.NoContent()
	answer.Audit = &rest.Audit{Operation: "Modify", Component: r.Operation.Tag, Details: "Changed device " + strconv.FormatInt(d.ID, 10)}
	return answer
}

// deviceActivity serves GET /devices/{id}/activity.
func (a *Appliance) deviceActivity(_ *rest.Request, d *devices.Device) rest.Answer {
	const bits = 52 // of an id
	records := make([]map[string]any, len(d.Categories))
	for i, category := range d.Categories {
		records[i] = map[string]any{
			"id": 1 + int64(devices.Hash(uint64(d.ID)+uint64(i)<<40)>>(64-bits)), "device_id": d.ID,
			"from_time": d.Discovered, "until_time": d.LastSeen, "mod_time": d.LastSeen,
			"stat_name": a.options.word() + ".device." + category,
		}
	}
	return rest.JSON(http.StatusOK, records)
}

// deviceDashboards serves GET /devices/{id}/dashboards.
func (a *Appliance) deviceDashboards(r *rest.Request, _ *devices.Device) rest.Answer {
	var ids []int64
	for _, dashboard := range a.resources.dashboards.All() {
		if dashboard["type"] == "system" {
			ids = append(ids, resource.Number(dashboard, "id"))
		}
	}
	return rest.Array(a.resources.dashboards.Shown(r, ids))
}

// deviceWindows returns a handler that serves the values that a device had in a range of time.
func (a *Appliance) deviceWindows(name string, of func(*devices.Device) []devices.Window) rest.Handler {
	return a.ofDevice(func(r *rest.Request, d *devices.Device) rest.Answer {
		from, until, err := window(inQuery(r), "from", "until", r.Now)
		if err != nil {
			return rest.BadRequest(err)
		}
		found := devices.In(of(d), from, until)
		shown := make([]map[string]any, len(found))
		for i, w := range found {
			shown[i] = map[string]any{name: w.Value, "from_time": w.From, "until_time": w.Until}
		}
		return rest.JSON(http.StatusOK, shown)
	})
}

// deviceSoftware serves GET /devices/{id}/software.
func (a *Appliance) deviceSoftware(r *rest.Request, d *devices.Device) rest.Answer {
	from, until, err := window(inQuery(r), "from", "until", r.Now)
	if err != nil {
		return rest.BadRequest(err)
	}
	found := []devices.Software{}
	if d.ActiveIn(from, until) {
		found = append(found, d.Software...)
	}
	return rest.JSON(http.StatusOK, found)
}
