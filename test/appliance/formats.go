package appliance

import "ndrbridge/test/appliance/rest"

// formatHandlers returns the handlers of formats of detections and tuning rules.
func (a *Appliance) formatHandlers() rest.Handlers {
	return nil
}
