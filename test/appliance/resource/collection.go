// Package resource implements the stand-in appliance's resources that only keep what clients
// put: collections of objects, and relations between them. What an object looks like is
// read from the description of the interface.
package resource

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"sync"

	"ndrbridge/test/appliance/openapi"
	"ndrbridge/test/appliance/rest"
)

// defaultMax is the number of objects that a collection holds if its kind sets none.
const defaultMax = 10_000

// Object is an object of a collection: the values of its fields as encoding/json decodes
// them, with numbers as json.Number, int64 or float64. Objects in a collection are immutable.
type Object = map[string]any

// Kind describes the objects of a collection.
type Kind struct {
	Path      string   // of the collection, as in /emailgroups
	Name      string   // of an object, in messages, as in "email group"
	Component string   // the schema of an object
	Unique    []string // fields whose values no two objects share; null is not a value
	// Key is the field, and the path parameter, that addresses an object in paths; it is a
	// string, required, unique and immutable. Empty: objects are addressed by id.
	Key string
	// Max is the number of objects that clients can make the collection hold; 0: 10,000.
	Max int
	// Complete sets the fields of a new object that the appliance decides, beyond the
	// defaults of the description, id, and mod_time if it has one; nil: there are none.
	Complete func(*rest.Request, Object)
	// Check returns the reason why an object that is new, or changed from before, is not
	// possible; nil: every object is. before is nil if it is new.
	Check func(r *rest.Request, before, after Object) error
	// Stored is called after a client created or changed an object, before the next change of
	// the collection; nil: nothing is to be done. It must not use the collection.
	Stored func(*rest.Request, Object)
	// Removed is called after an object was removed; nil: nothing is to be done. Relations
	// forget it by themselves.
	Removed func(id int64)
	// Show returns an object as a request sees it; nil: as it is. It must not modify the
	// object.
	Show func(*rest.Request, Object) Object
	// Deny returns the reason why a request may not "view", "edit" or "delete" an object; nil:
	// every request may do everything. An object that a request may not view does not exist
	// for it.
	Deny func(r *rest.Request, object Object, right string) error
}

// Collection is a set of objects with numeric ids. It is safe for concurrent use.
type Collection struct {
	kind        Kind
	description *openapi.Description
	hasModTime  bool
	relations   []*Relation
	removed     []func(id int64)

	mu      sync.RWMutex
	objects map[int64]Object
	lastID  int64
}

// NewCollection returns an empty collection. It panics if the description has no such
// component.
func NewCollection(d *openapi.Description, k Kind) *Collection {
	k.Max = cmp.Or(k.Max, defaultMax)
	_, hasModTime := d.Component(k.Component).Properties["mod_time"]
	return &Collection{kind: k, description: d, hasModTime: hasModTime, objects: make(map[int64]Object)}
}

// Handlers returns the handlers of those of the operations on a collection that the
// interface describes: list, create, get, patch and delete.
func (c *Collection) Handlers() rest.Handlers {
	object := c.kind.Path + "/{" + cmp.Or(c.kind.Key, "id") + "}"
	handlers := rest.Handlers{
		"GET " + c.kind.Path:  c.list,
		"POST " + c.kind.Path: c.create,
		"GET " + object:       c.get,
		"PATCH " + object:     c.patch,
		"DELETE " + object:    c.remove,
	}
	maps.DeleteFunc(handlers, func(name string, _ rest.Handler) bool { return !c.description.Has(name) })
	return handlers
}

// Relations returns the relations that the collection is a side of.
func (c *Collection) Relations() []*Relation { return slices.Clone(c.relations) }

// Has reports whether there is an object with an id.
func (c *Collection) Has(id int64) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.objects[id] != nil
}

// Get returns an object, or nil.
func (c *Collection) Get(id int64) Object {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.objects[id]
}

// Find returns the object with a value of the kind's key, or nil.
func (c *Collection) Find(key string) Object {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.find(key)
}

func (c *Collection) find(key string) Object {
	for _, object := range c.objects {
		if object[c.kind.Key] == key {
			return object
		}
	}
	return nil
}

// addressed returns the object that a request's path addresses, or nil. The collection must
// be locked.
func (c *Collection) addressed(r *rest.Request) Object {
	if c.kind.Key != "" {
		return c.find(r.Parameters[c.kind.Key])
	}
	return c.objects[r.ID("id")]
}

// All returns the objects, sorted by id.
func (c *Collection) All() []Object {
	c.mu.RLock()
	defer c.mu.RUnlock()
	all := make([]Object, 0, len(c.objects))
	for _, id := range slices.Sorted(maps.Keys(c.objects)) {
		all = append(all, c.objects[id])
	}
	return all
}

// Add adds an object that the appliance has by itself, and returns its id. It sets the id if
// there is none. Fields that are not set have their defaults.
func (c *Collection) Add(fields Object) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	object := c.description.Defaults(c.kind.Component)
	maps.Copy(object, fields)
	id, ok := object["id"].(int64)
	if !ok {
		id = c.lastID + 1
	}
	object["id"] = id
	c.lastID = max(c.lastID, id)
	c.objects[id] = object
	return id
}

// Update replaces fields of an object. It reports false if there is none with the id.
func (c *Collection) Update(id int64, fields Object) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.objects[id]
	if before == nil {
		return false
	}
	after := maps.Clone(before)
	maps.Copy(after, fields)
	c.objects[id] = after
	return true
}

// Remove removes an object. It reports false if there is none with the id.
func (c *Collection) Remove(id int64) bool {
	c.mu.Lock()
	_, ok := c.objects[id]
	delete(c.objects, id)
	c.mu.Unlock()
	if ok {
		c.forget(id)
	}
	return ok
}

// forget is called after an object was removed.
func (c *Collection) forget(id int64) {
	for _, removed := range c.removed {
		removed(id)
	}
	if c.kind.Removed != nil {
		c.kind.Removed(id)
	}
}

// OnRemoval adds a function that is called after an object was removed. It must be called before
// the collection is used.
func (c *Collection) OnRemoval(removed func(id int64)) { c.removed = append(c.removed, removed) }

// Shown returns the objects with the given ids as a request sees them, in that order.
// Those that do not exist are left out.
func (c *Collection) Shown(r *rest.Request, ids []int64) [][]byte {
	c.mu.RLock()
	defer c.mu.RUnlock()
	elements := make([][]byte, 0, len(ids))
	for _, id := range ids {
		if object := c.objects[id]; object != nil && c.denied(r, object, "view") == nil {
			elements = append(elements, c.encode(r, object))
		}
	}
	return elements
}

func (c *Collection) encode(r *rest.Request, object Object) []byte {
	if c.kind.Show != nil {
		object = c.kind.Show(r, object)
	}
	b, err := rest.Encode(object)
	if err != nil {
		panic(err) // objects contain JSON values alone
	}
	return b
}

func (c *Collection) list(r *rest.Request) rest.Answer {
	c.mu.RLock()
	ids := slices.Sorted(maps.Keys(c.objects))
	c.mu.RUnlock()
	return rest.Array(c.Shown(r, ids))
}

// Visible returns the object that the path of a request addresses if the request may view it,
// or nil.
func (c *Collection) Visible(r *rest.Request) Object {
	c.mu.RLock()
	object := c.addressed(r)
	c.mu.RUnlock()
	if object == nil || c.denied(r, object, "view") != nil {
		return nil
	}
	return object
}

func (c *Collection) denied(r *rest.Request, object Object, right string) error {
	if c.kind.Deny == nil {
		return nil
	}
	return c.kind.Deny(r, object, right)
}

// refuse returns the refusal of a request that may not do something with an object, and whether
// it is refused.
func (c *Collection) refuse(r *rest.Request, object Object, right string) (rest.Answer, bool) {
	if object == nil || c.denied(r, object, "view") != nil {
		return c.Missing(r), true
	}
	if err := c.denied(r, object, right); err != nil {
		return rest.Refuse(http.StatusForbidden, "%v", err), true
	}
	return rest.Answer{}, false
}

func (c *Collection) get(r *rest.Request) rest.Answer {
	object := c.Visible(r)
	if object == nil {
		return c.Missing(r)
	}
	return rest.Answer{Status: http.StatusOK, ContentType: rest.TypeJSON, Parts: [][]byte{c.encode(r, object)}}
}

// Missing returns the answer to a request for an object that there is not.
func (c *Collection) Missing(r *rest.Request) rest.Answer {
	key := cmp.Or(c.kind.Key, "id")
	return rest.NotFound("no %s has the %s %s", c.kind.Name, key, r.Parameters[key])
}

// path returns the path of an object.
func (c *Collection) path(object Object) string {
	if c.kind.Key != "" {
		return c.kind.Path + "/" + url.PathEscape(Text(object, c.kind.Key))
	}
	return c.kind.Path + "/" + strconv.FormatInt(Number(object, "id"), 10)
}

func (c *Collection) create(r *rest.Request) rest.Answer {
	object := c.complete(r, r.Object())
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.objects) >= c.kind.Max {
		return rest.Unprocessable("there are %d of %s, which is the maximum; delete some first", c.kind.Max, c.kind.Path)
	}
	object["id"] = c.lastID + 1
	if err := c.store(r, nil, object); err != nil {
		return rest.BadRequest(err)
	}
	c.lastID++
	answer := rest.Created(c.path(object))
	answer.Audit = c.audit(r, "Create", object)
	return answer
}

// complete returns a new object with the fields that a client gave.
func (c *Collection) complete(r *rest.Request, fields Object) Object {
	object := c.description.Defaults(c.kind.Component)
	maps.Copy(object, fields)
	if c.kind.Complete != nil {
		c.kind.Complete(r, object)
	}
	return object
}

func (c *Collection) patch(r *rest.Request) rest.Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.addressed(r)
	if refused, ok := c.refuse(r, before, "edit"); ok {
		return refused
	}
	after := maps.Clone(before)
	maps.Copy(after, r.Object())
	if err := c.store(r, before, after); err != nil {
		return rest.BadRequest(err)
	}
	answer := rest.NoContent()
	answer.Audit = c.audit(r, "Modify", after)
	return answer
}

// store makes after the state of an object if it fits the rules of the description, the values
// that must be unique, and the kind's check. The collection must be locked.
func (c *Collection) store(r *rest.Request, before, after Object) error {
	id := after["id"].(int64)
	if err := c.description.CheckRules(c.kind.Component, after); err != nil {
		return err
	}
	for _, field := range c.kind.Unique {
		value := after[field]
		if value == nil {
			continue
		}
		for other, object := range c.objects {
			if other != id && reflect.DeepEqual(object[field], value) {
				return fmt.Errorf("%s: the %s %d has this value", field, c.kind.Name, other)
			}
		}
	}
	if c.kind.Check != nil {
		if err := c.kind.Check(r, before, after); err != nil {
			return err
		}
	}
	if c.hasModTime {
		after["mod_time"] = r.Now
	}
	c.objects[id] = after
	if c.kind.Stored != nil {
		c.kind.Stored(r, after)
	}
	return nil
}

func (c *Collection) remove(r *rest.Request) rest.Answer {
	c.mu.RLock()
	object := c.addressed(r)
	c.mu.RUnlock()
	if refused, ok := c.refuse(r, object, "delete"); ok {
		return refused
	}
	if !c.Remove(Number(object, "id")) {
		return c.Missing(r)
	}
	answer := rest.NoContent()
	answer.Audit = c.audit(r, "Delete", object)
	return answer
}

func (c *Collection) audit(r *rest.Request, operation string, object Object) *rest.Audit {
	verb := map[string]string{"Create": "Created", "Modify": "Changed", "Delete": "Deleted"}[operation]
	name := object[cmp.Or(c.kind.Key, "id")]
	return &rest.Audit{Operation: operation, Component: r.Operation.Tag, Details: fmt.Sprintf("%s %s %v", verb, c.kind.Name, name)}
}

// Number returns a number of an object, or 0 if the field is null or absent.
func Number(object Object, field string) int64 {
	switch n := object[field].(type) {
	case int64:
		return n
	case int:
		return int64(n)
	case float64:
		return int64(n)
	case json.Number:
		i, err := n.Int64()
		if err != nil {
			f, _ := n.Float64() // it is a number, as the description requires
			return int64(f)
		}
		return i
	}
	return 0
}

// Text returns a string of an object, or "" if the field is null or absent.
func Text(object Object, field string) string {
	s, _ := object[field].(string)
	return s
}
