package resource

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	"ndrbridge/test/appliance/rest"
)

// The field of an object in which its sharing is kept; no request sees it.
const sharingField = "sharing"

// maxShared is the number of users, and of groups, that an object is shared with.
const maxShared = 100

// Sharing makes the objects of a collection belong to users, who share them with others.
// Its methods Complete, Show and Deny are for the [Kind] of the collection.
type Sharing struct {
	// Rights are those of an owner, as the interface lists them.
	Rights []string
	// IsUser reports whether there is a user with a name.
	IsUser func(name string) bool
	// IsFixed reports whether an object can only be viewed, by every user; nil: none is.
	IsFixed func(Object) bool
}

// NotShared returns the sharing of an object that only its owner has.
func NotShared() Object {
	return Object{"anyone": nil, "groups": Object{}, "users": Object{}}
}

// Complete makes the caller the owner of an object.
func (s Sharing) Complete(r *rest.Request, object Object) {
	object["owner"] = r.Caller.Name
	object[sharingField] = NotShared()
}

// Show adds the caller's rights to an object.
func (s Sharing) Show(r *rest.Request, object Object) Object {
	shown := maps.Clone(object)
	delete(shown, sharingField)
	shown["rights"] = s.rights(r.Caller, object)
	return shown
}

// Deny returns an error if the caller lacks a right to an object.
func (s Sharing) Deny(r *rest.Request, object Object, right string) error {
	if slices.Contains(s.rights(r.Caller, object), right) {
		return nil
	}
	return fmt.Errorf("the user %s lacks the right to %s this object", r.Caller.Name, right)
}

func (s Sharing) rights(c rest.Caller, object Object) []string {
	sharing, _ := object[sharingField].(Object)
	users, _ := sharing["users"].(Object)
	switch {
	case s.IsFixed != nil && s.IsFixed(object):
		return []string{"view"}
	case c.Roles["system"] == "full" || object["owner"] == c.Name:
		return s.Rights
	case users[c.Name] == "editor":
		return []string{"view", "edit"}
	case users[c.Name] == "viewer" || sharing["anyone"] == "viewer":
		return []string{"view"}
	}
	return []string{}
}

// Handlers returns the handlers of the operations on the sharing of the objects of a
// collection.
func (s Sharing) Handlers(c *Collection) rest.Handlers {
	path := c.kind.Path + "/{id}/sharing"
	return rest.Handlers{
		"GET " + path: func(r *rest.Request) rest.Answer {
			object := c.Visible(r)
			if object == nil {
				return c.Missing(r)
			}
			if sharing, ok := object[sharingField].(Object); ok {
				return rest.JSON(http.StatusOK, sharing)
			}
			return rest.JSON(http.StatusOK, NotShared())
		},
		"PATCH " + path: func(r *rest.Request) rest.Answer { return s.change(c, r, false) },
		"PUT " + path:   func(r *rest.Request) rest.Answer { return s.change(c, r, true) },
	}
}

// change changes the sharing of an object, or replaces it.
func (s Sharing) change(c *Collection, r *rest.Request, replace bool) rest.Answer {
	id := r.ID("id")
	if refused, ok := c.refuse(r, c.Get(id), "share"); ok {
		return refused
	}
	users, _ := r.Object()["users"].(Object)
	for _, name := range slices.Sorted(maps.Keys(users)) {
		if users[name] != nil && !s.IsUser(name) {
			return rest.BadRequest(fmt.Errorf("users.%s: there is no such user", name))
		}
	}
	err := c.Change(id, func(object Object) (Object, error) {
		sharing := NotShared()
		if before, ok := object[sharingField].(Object); ok && !replace {
			sharing = before
		}
		after := maps.Clone(object)
		merged, err := merge(sharing, r.Object())
		after[sharingField] = merged
		return after, err
	})
	if err != nil {
		return rest.Unprocessable("%v", err)
	}
	answer := rest.NoContent()
	answer.Audit = &rest.Audit{Operation: "Modify", Component: r.Operation.Tag, Details: fmt.Sprintf("Changed the sharing of %s %d", c.kind.Name, id)}
	return answer
}

// merge returns a sharing with changes.
func merge(sharing, changes Object) (Object, error) {
	merged := maps.Clone(sharing)
	if anyone, ok := changes["anyone"]; ok {
		merged["anyone"] = anyone
	}
	for _, of := range []string{"groups", "users"} {
		levels := maps.Clone(sharing[of].(Object))
		given, _ := changes[of].(Object)
		for name, level := range given {
			if levels[name] = level; level == nil {
				delete(levels, name)
			}
		}
		if len(levels) > maxShared {
			return nil, fmt.Errorf("%s: an object can be shared with %d of them", of, maxShared)
		}
		merged[of] = levels
	}
	return merged, nil
}
