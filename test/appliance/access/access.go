// Package access contains the users of the stand-in appliance: their privileges, the API keys
// that requests are made with, the settings of API access, and the identity providers.
package access

import (
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"

	"ndrbridge/test/appliance/openapi"
	"ndrbridge/test/appliance/resource"
	"ndrbridge/test/appliance/rest"
)

// Options configures Control.
type Options struct {
	Description *openapi.Description
	Rand        *rand.Rand    // of the texts of keys; owned by Control
	Host        func() string // of the appliance, as clients reach it
	User        string        // the first user, who has every privilege
	Key         string        // the user's key; empty: none
}

// Control decides who may do what. It is safe for concurrent use.
type Control struct {
	options   Options
	users     *resource.Collection
	providers *resource.Collection

	mu        sync.RWMutex
	rand      *rand.Rand
	keys      map[string]*key // by text
	lastKey   int64
	settings  settings
	providing map[int64]map[string]any // the privileges by identity provider
}

// New returns a Control with one user.
func New(o Options) *Control {
	c := &Control{
		options: o, rand: o.Rand,
		keys: make(map[string]*key), providing: make(map[int64]map[string]any),
		settings: settings{Policy: policyAll, CORS: cors{Origins: []string{}}},
	}
	c.users = resource.NewCollection(o.Description, resource.Kind{
		Path: "/users", Name: "user", Component: "User", Key: "username", Unique: []string{"username"},
		Complete: func(r *rest.Request, user resource.Object) { user["date_joined"] = r.Now },
		Removed:  c.revokeAll,
		Show:     showUser,
	})
	c.providers = c.newProviders()
	c.AddUser(o.User, map[string]string{"system": "full"}, o.Key)
	return c
}

// installed is the time since which the appliance has its first user, in milliseconds.
const installed = 1546300800000

// AddUser adds a local user with privileges, and with a key unless that is empty.
func (c *Control) AddUser(name string, roles map[string]string, text string) {
	id := c.users.Add(resource.Object{"username": name, "date_joined": int64(installed), "granted_roles": asObject(roles)})
	if text == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addKey(&key{text: text, user: id, Username: name, Description: "The key that the appliance starts with", CreatedTime: installed})
}

// Authenticate returns the owner of an API key, and whether the key is accepted.
func (c *Control) Authenticate(text string) (rest.Caller, bool) {
	c.mu.RLock()
	k := c.keys[text]
	c.mu.RUnlock()
	if k == nil {
		return rest.Caller{}, false
	}
	caller, ok := callerOf(c.users.Get(k.user))
	caller.KeyID = k.ID
	return caller, ok
}

// Caller returns the user with a name as the one who makes a request, and whether requests
// of the user are accepted.
func (c *Control) Caller(name string) (rest.Caller, bool) { return callerOf(c.users.Find(name)) }

func callerOf(user resource.Object) (rest.Caller, bool) {
	if user == nil || user["enabled"] != true {
		return rest.Caller{}, false
	}
	return rest.Caller{Name: resource.Text(user, "username"), Roles: rolesOf(user)}, true
}

func rolesOf(user resource.Object) map[string]string {
	granted, _ := user["granted_roles"].(map[string]any)
	return effective(granted)
}

func showUser(_ *rest.Request, user resource.Object) resource.Object {
	shown := maps.Clone(user)
	shown["effective_roles"] = asObject(rolesOf(user))
	return shown
}

// Handlers returns the handlers of the operations on users, keys, the settings of API access
// and identity providers.
func (c *Control) Handlers() rest.Handlers {
	handlers := c.users.Handlers()
	maps.Copy(handlers, c.providers.Handlers())
	maps.Copy(handlers, rest.Handlers{
		"GET /users":                                    c.listUsers(handlers["GET /users"]),
		"GET /users/{username}":                         own(handlers["GET /users/{username}"]),
		"PATCH /users/{username}":                       keepSelf(handlers["PATCH /users/{username}"]),
		"DELETE /users/{username}":                      keepSelf(handlers["DELETE /users/{username}"]),
		"GET /users/{username}/apikeys":                 own(c.listKeys),
		"POST /users/{username}/apikeys":                own(c.generateKey),
		"GET /service/apiaccess":                        c.getSettings,
		"PUT /service/apiaccess":                        c.putSettings,
		"GET /auth/samlsp":                              c.serviceProvider,
		"GET /users/{username}/apikeys/{id}":            own(c.getKey),
		"DELETE /users/{username}/apikeys/{id}":         own(c.revokeKey),
		"GET /auth/identityproviders/{id}/privileges":   c.getPrivileges,
		"PATCH /auth/identityproviders/{id}/privileges": c.patchPrivileges,
	})
	return handlers
}

// listUsers shows administrators all users, and others themselves.
func (c *Control) listUsers(all rest.Handler) rest.Handler {
	return func(r *rest.Request) rest.Answer {
		if isAdministrator(r.Caller.Roles) {
			return all(r)
		}
		self := c.users.Find(r.Caller.Name)
		return rest.Array(c.users.Shown(r, []int64{resource.Number(self, "id")}))
	}
}

// own restricts what a path with a username addresses to that of the caller, except for
// administrators.
func own(serve rest.Handler) rest.Handler {
	return func(r *rest.Request) rest.Answer {
		if r.Parameters["username"] != r.Caller.Name && !isAdministrator(r.Caller.Roles) {
			return forbidden(r.Caller, "system: full")
		}
		return serve(r)
	}
}

// keepSelf refuses changes by which callers would lock themselves out.
func keepSelf(serve rest.Handler) rest.Handler {
	return func(r *rest.Request) rest.Answer {
		if r.Parameters["username"] != r.Caller.Name {
			return serve(r)
		}
		if r.Method == http.MethodDelete {
			return rest.Unprocessable("the user %s cannot delete themself", r.Caller.Name)
		}
		change := r.Object()
		if change["enabled"] == false {
			return rest.Unprocessable("the user %s cannot disable themself", r.Caller.Name)
		}
		if granted, ok := change["granted_roles"].(map[string]any); ok && granted["system"] != "full" {
			return rest.Unprocessable("the user %s cannot take system privileges from themself", r.Caller.Name)
		}
		return serve(r)
	}
}
