package appliance

import (
	"fmt"
	"net/http"

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
	type rule struct {
		ObjectID int64 `json:"object_id"`
	}
	var body struct {
		Advanced []rule `json:"advanced_rules"`
		Standard []rule `json:"standard_rules"`
	}
	if err := r.Decode(&body); err != nil {
		return err
	}
	for name, rules := range map[string][]rule{"advanced_rules": body.Advanced, "standard_rules": body.Standard} {
		for i, each := range rules {
			if !a.resources.deviceGroups.Has(each.ObjectID) {
				return fmt.Errorf("%s.%d.object_id: no device group has the id %d", name, i, each.ObjectID)
			}
		}
	}
	return nil
}
