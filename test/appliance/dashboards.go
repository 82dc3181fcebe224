package appliance

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"ndrbridge/test/appliance/resource"
	"ndrbridge/test/appliance/rest"
)

// newDashboards sets the dashboards, two of the system and two of users, and a report.
func (a *Appliance) newDashboards() {
	a.resources.codes = &codes{rand: chance(a.options.Seed, chanceCodes)}
	a.resources.dashboardSharing = resource.Sharing{
		Rights:  []string{"transfer", "view", "edit", "share", "delete"},
		IsUser:  a.isUser,
		IsFixed: func(dashboard resource.Object) bool { return dashboard["type"] == "system" },
	}
	sharing := a.resources.dashboardSharing
	a.resources.dashboards = resource.NewCollection(a.description, resource.Kind{
		Path: "/dashboards", Name: "dashboard", Component: "Dashboard", Unique: []string{"short_code"}, Max: 200,
		Complete: func(r *rest.Request, dashboard resource.Object) {
			sharing.Complete(r, dashboard)
			if dashboard["short_code"] == nil {
				dashboard["short_code"] = a.resources.codes.next()
			}
		},
		Show: sharing.Show, Deny: sharing.Deny,
	})
	a.resources.reports = resource.NewCollection(a.description, resource.Kind{
		Path: "/reports", Name: "report", Component: "DashboardReport",
		Show: func(_ *rest.Request, report resource.Object) resource.Object {
			shown := maps.Clone(report)
			shown["dashboards"] = slices.DeleteFunc(slices.Clone(report["dashboards"].([]any)), func(id any) bool {
				return !a.resources.dashboards.Has(id.(int64)) // it was deleted
			})
			return shown
		},
	})
	now := a.millis()
	for _, dashboard := range []resource.Object{
		{"name": "Network", "comment": "Traffic of all devices.", "author": nil, "owner": "system", "short_code": "Netwk", "type": "system"},
		{"name": "Security", "comment": "Detections and devices at risk.", "author": nil, "owner": "system", "short_code": "Secur", "type": "system"},
		{"name": "Web services", "comment": nil, "author": a.options.User, "owner": a.options.User, "short_code": "WebSv", "type": "custom"},
		{"name": "Branch office", "comment": "Its owner left.", "author": "Pat Example", "owner": "pat", "short_code": "BrOff", "type": "custom"},
	} {
		dashboard["mod_time"] = now
		a.resources.dashboards.Add(dashboard)
	}
	a.resources.reports.Add(resource.Object{
		"name": "Weekly summary", "description": nil, "owner": a.options.User, "enabled": true, "frequency": "weekly",
		"dashboards": []any{int64(1), int64(3)}, "mod_time": now,
	})
}

// dashboardHandlers returns the handlers of dashboards.
func (a *Appliance) dashboardHandlers() rest.Handlers {
	handlers := a.resources.dashboards.Handlers()
	maps.Copy(handlers, a.resources.dashboardSharing.Handlers(a.resources.dashboards))
	handlers["PATCH /dashboards/{id}"] = a.transferDashboard(handlers["PATCH /dashboards/{id}"])
	handlers["GET /dashboards/{id}/reports"] = a.dashboardReports
	for name, serve := range handlers {
		if strings.Contains(name, "{id}") {
			handlers[name] = a.addressed(serve)
		}
	}
	return handlers
}

// addressed replaces the id in a path by the number of the dashboard that it addresses.
func (a *Appliance) addressed(serve rest.Handler) rest.Handler {
	return func(r *rest.Request) rest.Answer {
		address := r.Parameters["id"]
		id, err := strconv.ParseInt(address, 10, 64)
		if code, ok := strings.CutPrefix(address, "~"); ok {
			if r.Method == http.MethodDelete {
				return rest.BadRequest(errors.New("id: a dashboard is deleted by its numeric id"))
			}
			id, _ = a.resources.dashboards.Named(code)
		} else if err != nil {
			return a.resources.dashboards.Missing(r)
		}
		if id == 0 {
			return a.resources.dashboards.Missing(r)
		}
		r.Parameters = map[string]string{"id": strconv.FormatInt(id, 10)}
		return serve(r)
	}
}

// transferDashboard makes patch, which changes the owner, require the right to do so.
func (a *Appliance) transferDashboard(patch rest.Handler) rest.Handler {
	return func(r *rest.Request) rest.Answer {
		dashboard := a.resources.dashboards.Visible(r)
		if dashboard == nil {
			return a.resources.dashboards.Missing(r)
		}
		if err := a.resources.dashboardSharing.Deny(r, dashboard, "transfer"); err != nil {
			return rest.Refuse(http.StatusForbidden, "%v", err)
		}
		if owner := resource.Text(r.Object(), "owner"); !a.isUser(owner) {
			return rest.BadRequest(fmt.Errorf("owner: there is no user %q", owner))
		}
		return patch(r)
	}
}

// dashboardReports serves GET /dashboards/{id}/reports.
func (a *Appliance) dashboardReports(r *rest.Request) rest.Answer {
	if a.resources.dashboards.Visible(r) == nil {
		return a.resources.dashboards.Missing(r)
	}
	var ids []int64
	for _, report := range a.resources.reports.All() {
		dashboards, _ := report["dashboards"].([]any)
		if slices.Contains(dashboards, any(r.ID("id"))) {
			ids = append(ids, resource.Number(report, "id"))
		}
	}
	return rest.Array(a.resources.reports.Shown(r, ids))
}
