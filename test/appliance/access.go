package appliance

import "ndrbridge/test/appliance/rest"

// accessHandlers returns the handlers of users, their keys, and identity providers.
func (a *Appliance) accessHandlers() rest.Handlers {
	return nil
}
