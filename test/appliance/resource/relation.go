package resource

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"ndrbridge/test/appliance/rest"
)

// Set is one side of a relation.
type Set interface {
	// Has reports whether there is an object with an id.
	Has(id int64) bool
	// Shown returns the objects with the given ids as a request sees them, without those that
	// do not exist.
	Shown(r *rest.Request, ids []int64) [][]byte
}

// Side describes one side of a relation.
type Side struct {
	Path string // of the collection, as in /alerts
	Name string // of an object, in messages
	Set  Set
}

// Relation assigns children to parents, of which each may have any number of the other. It
// is safe for concurrent use.
type Relation struct {
	parent, child Side

	mu       sync.RWMutex
	children map[int64]map[int64]bool // by parent
	parents  map[int64]map[int64]bool // by child
}

// NewRelation returns a relation in which nothing is assigned.
func NewRelation(parent, child Side) *Relation {
	return &Relation{parent: parent, child: child, children: make(map[int64]map[int64]bool), parents: make(map[int64]map[int64]bool)}
}

// Handlers returns the handlers of the assignment pattern, of which only those that has
// reports are kept: of children below a parent, and with reversed, of parents below a child.
func (l *Relation) Handlers(reversed bool, has func(name string) bool) rest.Handlers {
	v := view{l, l.parent, l.child, false}
	if reversed {
		v = view{l, l.child, l.parent, true}
	}
	path := v.of.Path + "/{id}" + v.to.Path
	handlers := rest.Handlers{
		"GET " + path:                    v.list,
		"POST " + path:                   v.assignMany,
		"POST " + path + "/{child-id}":   v.assignOne(true),
		"DELETE " + path + "/{child-id}": v.assignOne(false),
	}
	maps.DeleteFunc(handlers, func(name string, _ rest.Handler) bool { return !has(name) })
	return handlers
}

// Children returns the children of a parent, sorted.
func (l *Relation) Children(parent int64) []int64 { return l.related(parent, false) }

// Parents returns the parents of a child, sorted.
func (l *Relation) Parents(child int64) []int64 { return l.related(child, true) }

func (l *Relation) related(id int64, reversed bool) []int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if reversed {
		return slices.Sorted(maps.Keys(l.parents[id]))
	}
	return slices.Sorted(maps.Keys(l.children[id]))
}

// Assign assigns a child to a parent, or unassigns it.
func (l *Relation) Assign(parent, child int64, assigned bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	set(l.children, parent, child, assigned)
	set(l.parents, child, parent, assigned)
}

// RemoveParent unassigns everything from a parent.
func (l *Relation) RemoveParent(id int64) {
	for _, child := range l.Children(id) {
		l.Assign(id, child, false)
	}
}

// RemoveChild unassigns a child from every parent.
func (l *Relation) RemoveChild(id int64) {
	for _, parent := range l.Parents(id) {
		l.Assign(parent, id, false)
	}
}

func set(sets map[int64]map[int64]bool, key, member int64, is bool) {
	switch {
	case !is:
		delete(sets[key], member)
		if len(sets[key]) == 0 {
			delete(sets, key)
		}
	case sets[key] == nil:
		sets[key] = map[int64]bool{member: true}
	default:
		sets[key][member] = true
	}
}

// view is a relation as seen from one of its sides.
type view struct {
	*Relation
	of, to   Side
	reversed bool
}

func (v view) assign(id, other int64, assigned bool) {
	if v.reversed {
		id, other = other, id
	}
	v.Assign(id, other, assigned)
}

func (v view) list(r *rest.Request) rest.Answer {
	id := r.ID("id")
	if !v.of.Set.Has(id) {
		return missing(v.of, id)
	}
	return rest.Array(v.to.Set.Shown(r, v.related(id, v.reversed)))
}

func (v view) assignOne(assigned bool) rest.Handler {
	return func(r *rest.Request) rest.Answer {
		id, other := r.ID("id"), r.ID("child-id")
		switch {
		case !v.of.Set.Has(id):
			return missing(v.of, id)
		case !v.to.Set.Has(other):
			return missing(v.to, other)
		}
		if !assigned && !slices.Contains(v.related(id, v.reversed), other) {
			return rest.NotFound("the %s %d is not assigned to the %s %d", v.to.Name, other, v.of.Name, id)
		}
		v.assign(id, other, assigned)
		return v.done(r, id)
	}
}

// assignMany assigns and unassigns in one call: all or nothing.
func (v view) assignMany(r *rest.Request) rest.Answer {
	id := r.ID("id")
	if !v.of.Set.Has(id) {
		return missing(v.of, id)
	}
	var body struct{ Assign, Unassign []int64 }
	if err := r.Decode(&body); err != nil {
		return rest.BadRequest(err)
	}
	for _, other := range slices.Concat(body.Assign, body.Unassign) {
		if !v.to.Set.Has(other) {
			return missing(v.to, other)
		}
	}
	for _, other := range body.Assign {
		v.assign(id, other, true)
	}
	for _, other := range body.Unassign {
		v.assign(id, other, false)
	}
	return v.done(r, id)
}

func (v view) done(r *rest.Request, id int64) rest.Answer {
	answer := rest.NoContent()
	answer.Audit = &rest.Audit{
		Operation: "Modify", Component: r.Operation.Tag,
		Details: fmt.Sprintf("Changed what is assigned to %s %s", v.of.Name, strconv.FormatInt(id, 10)),
	}
	return answer
}

func missing(s Side, id int64) rest.Answer { return rest.NotFound("no %s has the id %d", s.Name, id) }
