package appliance

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"ndrbridge/test/appliance/alerts"
	"ndrbridge/test/appliance/applications"
	"ndrbridge/test/appliance/resource"
	"ndrbridge/test/appliance/rest"
)

// newAlertResources sets the alerts and what belongs to them.
func (a *Appliance) newAlertResources() {
	a.resources.emailGroups = resource.NewCollection(a.description, resource.Kind{
		Path: "/emailgroups", Name: "email group", Component: "EmailGroup", Unique: []string{"group_name"}, Max: 1000,
	})
	a.resources.exclusionIntervals = resource.NewCollection(a.description, alerts.IntervalKind())
	a.resources.alerts = resource.NewCollection(a.description, alerts.Kind())
	for _, alert := range alerts.Seeds(a.options.word()) {
		a.resources.alerts.Add(alert)
	}
	a.resources.applications = resource.NewCollection(a.description, resource.Kind{
		Path: "/applications", Name: "application", Component: "Application", Unique: []string{"display_name"},
		Complete: func(r *rest.Request, application resource.Object) {
			for _, identifier := range []string{a.options.word() + "_id", "discovery_id"} {
				if application[identifier] == nil {
					application[identifier] = strings.Map(underscore, resource.Text(application, "display_name"))
				}
			}
			application["user_mod_time"] = r.Now
		},
	})
	for _, application := range applications.Seeds(a.options.word()) {
		a.resources.applications.Add(application)
	}
	a.resources.customDevices = a.newCustomDevices()
}

// alertHandlers returns the handlers of alerts, of what is assigned to them, of applications,
// and of custom devices.
func (a *Appliance) alertHandlers() rest.Handlers {
	handlers := rest.Handlers{
		"GET /alerts/{id}/stats":          a.alertStats,
		"GET /applications":               a.findApplications,
		"GET /applications/{id}/activity": a.applicationActivity,
	}
	maps.Copy(handlers, a.resources.alerts.Handlers())
	maps.Copy(handlers, a.resources.emailGroups.Handlers())
	maps.Copy(handlers, a.resources.exclusionIntervals.Handlers())
	maps.Copy(handlers, a.sensorOnly(a.resources.customDevices.Handlers()))
	maps.Copy(handlers, a.alertAssignments())
	return handlers
}

// alertAssignments returns the handlers of what can be assigned to alerts, as seen from both
// sides.
func (a *Appliance) alertAssignments() rest.Handlers {
	parent := resource.Side{Path: "/alerts", Name: "alert", Set: a.resources.alerts}
	assign := func(path, name string, set resource.Set) *resource.Relation {
		return resource.NewRelation(parent, resource.Side{Path: path, Name: name, Set: set})
	}
	byApplication := assign("/applications", "application", a.resources.applications)
	byApplication.Indirect(true, func(int64) []int64 { return a.alertsOfAll("application") })
	byGroup := assign("/devicegroups", "device group", a.resources.deviceGroups)
	byDevice := assign("/devices", "device", a.resources.devices)
	byDevice.Indirect(true, func(device int64) []int64 {
		return append(a.alertsOfAll("device"), a.alertsOfGroups(byGroup, device)...)
	})

	handlers := rest.Handlers{}
	for _, relation := range []*resource.Relation{
		byApplication,
		byDevice,
		byGroup,
		assign("/emailgroups", "email group", a.resources.emailGroups),
		assign("/exclusionintervals", "exclusion interval", a.resources.exclusionIntervals),
		assign("/networks", "network", a.resources.networks),
	} {
		maps.Copy(handlers, relation.Handlers(false, a.description.Has))
		maps.Copy(handlers, relation.Handlers(true, a.description.Has))
	}
	return handlers
}

// alertsOfAll returns the ids of the alerts that apply to every object of a kind.
func (a *Appliance) alertsOfAll(kind string) (ids []int64) {
	for _, alert := range a.resources.alerts.All() {
		if alerts.AppliesToAll(alert, kind) {
			ids = append(ids, resource.Number(alert, "id"))
		}
	}
	return ids
}

// alertsOfGroups returns the ids of the alerts that are assigned to groups of a device.
func (a *Appliance) alertsOfGroups(byGroup *resource.Relation, device int64) (ids []int64) {
	now := a.millis()
	d := a.device(device, now)
	if d == nil {
		return nil
	}
	for _, group := range a.resources.deviceGroups.All() {
		id := resource.Number(group, "id")
		if assigned := byGroup.Parents(id); len(assigned) > 0 && a.membership(id, now)(d) {
			ids = append(ids, assigned...)
		}
	}
	return ids
}

// alertStats serves GET /alerts/{id}/stats.
func (a *Appliance) alertStats(r *rest.Request) rest.Answer {
	alert := a.resources.alerts.Get(r.ID("id"))
	if alert == nil {
		return rest.NotFound("no alert has the id %d", r.ID("id"))
	}
	return rest.JSON(http.StatusOK, alerts.Stats(alert))
}

// applicationActivity serves GET /applications/{id}/activity.
func (a *Appliance) applicationActivity(r *rest.Request) rest.Answer {
	if id := r.ID("id"); a.resources.applications.Has(id) {
		return rest.JSON(http.StatusOK, applications.ActivityOf(a.options.word(), id, r.Now))
	}
	return rest.NotFound("no application has the id %d", r.ID("id"))
}

// findApplications serves GET /applications.
func (a *Appliance) findApplications(r *rest.Request) rest.Answer {
	parameters := r.URL.Query()
	query := applications.Query{SearchType: parameters.Get("search_type"), Value: parameters.Get("value")}
	for name, into := range map[string]**int64{"active_from": &query.From, "active_until": &query.Until} {
		if !parameters.Has(name) {
			continue
		}
		at, err := rest.ParseTime(json.RawMessage(parameters.Get(name)), time.UnixMilli(r.Now))
		if err != nil {
			return rest.BadRequest(fmt.Errorf("%s: %w", name, err))
		}
		*into = &at
	}
	if query.From != nil && query.Until != nil && *query.From > *query.Until {
		return rest.BadRequest(errors.New("active_until: must not be before active_from"))
	}
	if limit, ok := r.Integer("limit"); ok {
		query.Limit = &limit
	}
	query.Offset, _ = r.Integer("offset")
	ids, err := query.Find(a.options.word(), a.resources.applications.All(), r.Now)
	if err != nil {
		return rest.BadRequest(err)
	}
	return rest.Array(a.resources.applications.Shown(r, ids))
}
