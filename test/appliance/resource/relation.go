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

// remover is a set from which objects are removed.
type remover interface {
	OnRemoval(removed func(id int64))
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
	indirect      map[bool]func(id int64) []int64 // by reversed
	refuse        func(parent, child int64) error // nil: nothing is refused

	mu       sync.RWMutex
	pairs    int
	children map[int64]map[int64]bool // by parent
	parents  map[int64]map[int64]bool // by child
}

// maxPairs is the number of assignments that a relation holds.
const maxPairs = 100_000

// NewRelation returns a relation in which nothing is assigned. An object that is removed from a
// set which has the method OnRemoval, as a [Collection] has, is also removed from the relation. It
// must be made before the sets are used.
func NewRelation(parent, child Side) *Relation {
	l := &Relation{
		parent: parent, child: child, indirect: make(map[bool]func(int64) []int64),
		children: make(map[int64]map[int64]bool), parents: make(map[int64]map[int64]bool),
	}
	if s, ok := parent.Set.(remover); ok {
		s.OnRemoval(l.RemoveParent)
	}
	if s, ok := child.Set.(remover); ok {
		s.OnRemoval(l.RemoveChild)
	}
	for _, set := range []Set{parent.Set, child.Set} {
		if c, ok := set.(*Collection); ok {
			c.relations = append(c.relations, l)
		}
	}
	return l
}

// Indirect sets a function that returns the children that a parent has without an assignment
// to it alone, or with reversed, the parents that a child has. They are listed as well, unless
// a request's parameter direct_assignments_only is true. It must be called before the relation
// is used, and the function must be safe for concurrent use.
func (l *Relation) Indirect(reversed bool, related func(id int64) []int64) {
	l.indirect[reversed] = related
}

// Refuse sets a function that returns why a client cannot assign a child to a parent, or unassign
// it; nil: it can. It must be called before the relation is used, and the function must be safe
// for concurrent use.
func (l *Relation) Refuse(reason func(parent, child int64) error) { l.refuse = reason }

// Path returns the paths of both sides, as in /alerts/emailgroups.
func (l *Relation) Path() string { return l.parent.Path + l.child.Path }

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
	if l.children[parent][child] == assigned {
		return
	}
	if assigned {
		l.pairs++
	} else {
		l.pairs--
	}
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
	parent, child := id, other
	if v.reversed {
		parent, child = other, id
	}
	v.Assign(parent, child, assigned)
	if assigned && !(v.of.Set.Has(id) && v.to.Set.Has(other)) { // one was removed in the meantime
		v.Assign(parent, child, false)
	}
}

func (v view) list(r *rest.Request) rest.Answer {
	id := r.ID("id")
	if !v.of.Set.Has(id) {
		return missing(v.of, id)
	}
	ids := v.related(id, v.reversed)
	if indirect := v.indirect[v.reversed]; indirect != nil && r.URL.Query().Get("direct_assignments_only") != "true" {
		ids = append(ids, indirect(id)...)
		slices.Sort(ids)
		ids = slices.Compact(ids)
	}
	return rest.Array(v.to.Set.Shown(r, ids))
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
		if refused, ok := v.allowed(id, other); !ok {
			return refused
		}
		if assigned {
			if refused, full := v.full(1); full {
				return refused
			}
		} else if !slices.Contains(v.related(id, v.reversed), other) {
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
		if refused, ok := v.allowed(id, other); !ok {
			return refused
		}
	}
	if refused, full := v.full(len(body.Assign)); full {
		return refused
	}
	for _, other := range body.Assign {
		v.assign(id, other, true)
	}
	for _, other := range body.Unassign {
		v.assign(id, other, false)
	}
	return v.done(r, id)
}

// allowed reports whether an object can be assigned or unassigned, and the refusal if not.
func (v view) allowed(id, other int64) (refused rest.Answer, ok bool) {
	if v.refuse == nil {
		return rest.Answer{}, true
	}
	if v.reversed {
		id, other = other, id
	}
	if err := v.refuse(id, other); err != nil {
		return rest.Unprocessable("%v", err), false
	}
	return rest.Answer{}, true
}

// full reports whether the relation cannot hold n more assignments, and the refusal.
func (v view) full(n int) (refused rest.Answer, full bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.pairs+n <= maxPairs {
		return rest.Answer{}, false
	}
	return rest.Unprocessable("%s can be assigned to %s %d times in all; unassign some first", v.child.Name, v.parent.Name, maxPairs), true
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
