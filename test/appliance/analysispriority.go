package appliance

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	"ndrbridge/test/appliance/resource"
	"ndrbridge/test/appliance/rest"
)

// analysisPriorityHandlers returns the handlers of the analysis priorities of each sensor.
func (a *Appliance) analysisPriorityHandlers() rest.Handlers {
	platform, sensors := "sensor", []int64{0}
	if a.options.Console {
		platform, sensors = "console", []int64{3, 6} // those that have detections
	}
	bySensor := make(map[int64]rest.Handlers)
	for _, id := range sensors {
		manager := resource.NewSettings("/analysispriority/{sensor_id}/manager", resource.Object{"manager": "sensor"})
		rules := resource.NewSettings("/analysispriority/config/{sensor_id}", resource.Object{
			"autofill_advanced": true, "autofill_standard": true, "advanced_rules": []any{}, "standard_rules": []any{},
		})
		rules.Refuse = func(r *rest.Request) (rest.Answer, bool) {
			if r.Method == http.MethodGet {
				return rest.Answer{}, false
			}
			if managing := manager.Value()["manager"]; managing != platform {
				return rest.Unprocessable("the rules of the sensor %d are managed by the %s", id, managing), true
			}
			if err := a.checkPriorities(r); err != nil {
				return rest.BadRequest(err), true
			}
			return rest.Answer{}, false
		}
		rules.Show = a.withoutLostGroups
		bySensor[id] = rules.Handlers(a.description)
		for name, serve := range manager.Handlers(a.description) {
			bySensor[id][name] = serve
		}
	}
	handlers := make(rest.Handlers)
	for name := range bySensor[sensors[0]] {
		handlers[name] = func(r *rest.Request) rest.Answer {
			ofSensor, ok := bySensor[r.ID("sensor_id")]
			if !ok {
				return rest.NotFound("no sensor has the number %d", r.ID("sensor_id"))
			}
			return ofSensor[name](r)
		}
	}
	return handlers
}

// checkPriorities returns an error if a rule is for a device group that does not exist.
func (a *Appliance) checkPriorities(r *rest.Request) error {
	for _, list := range priorityLists {
		rules, _ := r.Object()[list].([]any)
		for i, rule := range rules {
			if id := prioritized(rule); !a.resources.deviceGroups.Has(id) {
				return fmt.Errorf("%s.%d.object_id: no device group has the id %d", list, i, id)
			}
		}
	}
	return nil
}

// withoutLostGroups returns analysis priority rules without those for device groups that were
// deleted.
func (a *Appliance) withoutLostGroups(all resource.Object) resource.Object {
	shown := maps.Clone(all)
	for _, list := range priorityLists {
		rules, _ := all[list].([]any)
		shown[list] = slices.DeleteFunc(slices.Clone(rules), func(rule any) bool {
			return !a.resources.deviceGroups.Has(prioritized(rule))
		})
	}
	return shown
}

// priorityLists are the fields of analysis priority rules that list device groups.
var priorityLists = [...]string{"advanced_rules", "standard_rules"}

// prioritized returns the id of the device group of a rule.
func prioritized(rule any) int64 {
	fields, _ := rule.(resource.Object)
	return resource.Number(fields, "object_id")
}
