package access

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"ndrbridge/test/appliance/resource"
	"ndrbridge/test/appliance/rest"
)

// maxKeys is the number of keys that a user can have.
const maxKeys = 20

// key is an API key. It is immutable.
type key struct {
	ID          int64  `json:"id"`
	Username    string `json:"username"`
	Description string `json:"description"`
	CreatedTime int64  `json:"created_time"`

	text string
	user int64
}

// addKey adds a key and sets its id. The Control must be locked.
func (c *Control) addKey(k *key) {
	c.lastKey++
	k.ID = c.lastKey
	c.keys[k.text] = k
}

// revokeAll deletes the keys of a user.
func (c *Control) revokeAll(user int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for text, k := range c.keys {
		if k.user == user {
			delete(c.keys, text)
		}
	}
}

// owner returns the user in a request's path, or the refusal.
func (c *Control) owner(r *rest.Request) (user resource.Object, refused rest.Answer) {
	name := r.Parameters["username"]
	if user = c.users.Find(name); user == nil {
		return nil, rest.NotFound("no user has the username %s", name)
	}
	return user, rest.Answer{}
}

// keysOf returns the keys of a user, sorted by id.
func (c *Control) keysOf(user resource.Object) []*key {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.sortedKeys(resource.Number(user, "id"))
}

func (c *Control) sortedKeys(user int64) []*key {
	keys := []*key{}
	for _, k := range c.keys {
		if k.user == user {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b *key) int { return cmp.Compare(a.ID, b.ID) })
	return keys
}

func (c *Control) listKeys(r *rest.Request) rest.Answer {
	user, refused := c.owner(r)
	if user == nil {
		return refused
	}
	return rest.JSON(http.StatusOK, c.keysOf(user))
}

func (c *Control) generateKey(r *rest.Request) rest.Answer {
	user, refused := c.owner(r)
	if user == nil {
		return refused
	}
	var body struct{ Description string }
	if err := r.Decode(&body); err != nil {
		return rest.BadRequest(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	id, kind := resource.Number(user, "id"), resource.Text(user, "type")
	switch {
	case !c.settings.Policy.allows(kind):
		return rest.Unprocessable("the policy of API access permits no keys for %s users", kind)
	case len(c.sortedKeys(id)) >= maxKeys:
		return rest.Unprocessable("the user has %d API keys, which is the maximum; revoke some first", maxKeys)
	case !c.users.Has(id): // the user was deleted meanwhile, and with it the keys
		return rest.NotFound("no user has the username %s", r.Parameters["username"])
	}
	k := &key{
		text: fmt.Sprintf("%016x%016x", c.rand.Uint64(), c.rand.Uint64()), user: id,
		Username: resource.Text(user, "username"), Description: body.Description, CreatedTime: r.Now,
	}
	c.addKey(k)
	answer := rest.JSON(http.StatusCreated, map[string]any{"id": k.ID, "key": k.text})
	answer.Header = http.Header{"Location": {r.URL.EscapedPath() + "/" + strconv.FormatInt(k.ID, 10)}}
	answer.Audit = keyAudit("Generate", "Generated", k)
	return answer
}

// addressedKey returns the key in a request's path, or the refusal.
func (c *Control) addressedKey(r *rest.Request) (k *key, refused rest.Answer) {
	user, refused := c.owner(r)
	if user == nil {
		return nil, refused
	}
	keys := c.keysOf(user)
	i := slices.IndexFunc(keys, func(k *key) bool { return k.ID == r.ID("id") })
	if i < 0 {
		return nil, rest.NotFound("the user has no API key with the id %d", r.ID("id"))
	}
	return keys[i], rest.Answer{}
}

func (c *Control) getKey(r *rest.Request) rest.Answer {
	k, refused := c.addressedKey(r)
	if k == nil {
		return refused
	}
	return rest.JSON(http.StatusOK, k)
}

func (c *Control) revokeKey(r *rest.Request) rest.Answer {
	k, refused := c.addressedKey(r)
	switch {
	case k == nil:
		return refused
	case k.ID == r.Caller.KeyID:
		return rest.Unprocessable("an API key cannot revoke itself")
	}
	c.mu.Lock()
	delete(c.keys, k.text)
	c.mu.Unlock()
	answer := rest.NoContent()
	answer.Audit = keyAudit("Delete", "Revoked", k)
	return answer
}

func keyAudit(operation, verb string, k *key) *rest.Audit {
	return &rest.Audit{
		Operation: operation, Component: "API access",
		Details: fmt.Sprintf("%s the API key with the id %d of the user %s", verb, k.ID, k.Username),
	}
}
