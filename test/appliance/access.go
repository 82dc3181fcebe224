package appliance

import (
	"ndrbridge/test/appliance/access"
	"ndrbridge/test/appliance/rest"
)

// newControl returns the users that the appliance starts with: one, with every privilege.
func (a *Appliance) newControl() *access.Control {
	return access.New(access.Options{
		Description: a.description, Rand: chance(a.options.Seed, chanceKeys),
		Host: func() string { return a.identity.Load().Host },
		User: a.options.User, Key: a.options.APIKey,
	})
}

// accessHandlers returns the handlers of users, their keys, and identity providers.
func (a *Appliance) accessHandlers() rest.Handlers {
	return a.control.Handlers()
}
