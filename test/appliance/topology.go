package appliance

import "ndrbridge/test/appliance/rest"

// topologyHandlers returns the handlers of activity maps.
func (a *Appliance) topologyHandlers() rest.Handlers {
	return nil
}
