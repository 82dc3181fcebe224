package appliance

import (
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"unicode"

	"ndrbridge/test/appliance/devices"
	"ndrbridge/test/appliance/resource"
	"ndrbridge/test/appliance/rest"
)

// newCustomDevices returns the custom devices, of which there are none at first. Each makes a
// device.
func (a *Appliance) newCustomDevices() *resource.Collection {
	identifier := a.options.word() + "_id"
	return resource.NewCollection(a.description, resource.Kind{
		Path: "/customdevices", Name: "custom device", Component: "CustomDevice", Unique: []string{"name", identifier},
		Complete: func(_ *rest.Request, device resource.Object) {
			if device[identifier] == nil {
				device[identifier] = strings.Map(underscore, resource.Text(device, "name"))
			}
		},
		Check: func(_ *rest.Request, _, device resource.Object) error {
			criteria, _ := device["criteria"].([]any)
			for i, criterion := range criteria {
				if err := checkCriterion(criterion.(map[string]any)); err != nil {
					return fmt.Errorf("criteria.%d.%w", i, err)
				}
			}
			return nil
		},
		Stored: func(r *rest.Request, device resource.Object) {
			a.resources.population.Define(devices.Custom{
				Number: resource.Number(device, "id"), Identifier: resource.Text(device, identifier),
				Name: resource.Text(device, "name"), Description: device["description"],
				Address: addressOf(device), Disabled: device["disabled"] == true,
			}, r.Now)
		},
		Removed: func(id int64) { a.resources.population.Remove(id) },
		Show: func(r *rest.Request, device resource.Object) resource.Object {
			if r.URL.Query().Get("include_criteria") == "true" {
				return device
			}
			shown := maps.Clone(device)
			delete(shown, "criteria")
			return shown
		},
	})
}

// addressOf returns the first address, rather than block, in the criteria of a custom device.
func addressOf(device resource.Object) string {
	criteria, _ := device["criteria"].([]any)
	for _, criterion := range criteria {
		text, _ := criterion.(map[string]any)["ipaddr"].(string)
		if _, err := netip.ParseAddr(text); err == nil {
			return text
		}
	}
	return ""
}

func underscore(r rune) rune {
	if unicode.IsSpace(r) {
		return '_'
	}
	return r
}

// checkCriterion returns an error if no traffic can meet a criterion.
func checkCriterion(criterion resource.Object) error {
	for _, field := range []string{"ipaddr", "ipaddr_peer"} {
		text, ok := criterion[field].(string)
		if !ok {
			continue
		}
		_, noAddress := netip.ParseAddr(text)
		_, noBlock := netip.ParsePrefix(text)
		if noAddress != nil && noBlock != nil {
			return fmt.Errorf("%s: neither an address nor a CIDR block", field)
		}
	}
	for _, field := range []string{"src_port", "dst_port", "vlan"} {
		_, lower := criterion[field+"_min"]
		_, upper := criterion[field+"_max"]
		if lower && upper && resource.Number(criterion, field+"_min") > resource.Number(criterion, field+"_max") {
			return fmt.Errorf("%s_max: less than %s_min", field, field)
		}
	}
	return nil
}

// sensorOnly refuses requests to a console.
func (a *Appliance) sensorOnly(handlers rest.Handlers) rest.Handlers {
	if !a.options.Console {
		return handlers
	}
	for name := range handlers {
		handlers[name] = func(*rest.Request) rest.Answer {
			return rest.Unprocessable("a console has no custom devices; ask one of its sensors")
		}
	}
	return handlers
}
