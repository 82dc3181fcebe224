package appliance

import (
	"maps"
	"math/rand/v2"
	"sync"

	"ndrbridge/test/appliance/customization"
	"ndrbridge/test/appliance/rest"
)

// contentHandlers returns the handlers of dashboards, bundles and backups.
func (a *Appliance) contentHandlers() rest.Handlers {
	handlers := a.dashboardHandlers()
	maps.Copy(handlers, customization.New(customization.Options{
		Description: a.description, Kinds: a.kinds(), Console: a.options.Console, Sensors: []int64{3, 6}, Now: a.millis(),
	}).Handlers())
	return handlers
}

// kinds returns what bundles and backups contain.
func (a *Appliance) kinds() []customization.Kind {
	kinds := []customization.Kind{
		{Name: "tags", Set: a.resources.tags},
		{Name: "devicegroups", Set: a.resources.deviceGroups},
		{Name: "emailgroups", Set: a.resources.emailGroups},
		{Name: "exclusionintervals", Set: a.resources.exclusionIntervals},
		{Name: "applications", Set: a.resources.applications},
		{Name: "alerts", Set: a.resources.alerts},
		{Name: "triggers", Set: a.resources.triggers},
		{Name: "dashboards", Set: a.resources.dashboards},
		{Name: "activitymaps", Set: a.resources.activityMaps},
	}
	if !a.options.Console {
		kinds = append(kinds, customization.Kind{Name: "customdevices", Set: a.resources.customDevices})
	}
	return kinds
}

// codes makes short codes. It is safe for concurrent use.
type codes struct {
	mu   sync.Mutex
	rand *rand.Rand
}

// next returns a code of eight letters.
func (c *codes) next() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	const letters = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz"
	code := make([]byte, 8)
	for i := range code {
		code[i] = letters[c.rand.IntN(len(letters))]
	}
	return string(code)
}
