package appliance

import "ndrbridge/test/appliance/rest"

// alertHandlers returns the handlers of alerts, of what is assigned to them, and of
// applications.
func (a *Appliance) alertHandlers() rest.Handlers {
	return a.resources.emailGroups.Handlers()
}
