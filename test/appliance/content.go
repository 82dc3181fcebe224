package appliance

import "ndrbridge/test/appliance/rest"

// contentHandlers returns the handlers of dashboards, bundles and backups.
func (a *Appliance) contentHandlers() rest.Handlers {
	return nil
}
