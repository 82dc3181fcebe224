package resource

import (
	"errors"
	"fmt"
	"maps"
	"reflect"

	"ndrbridge/test/appliance/rest"
)

// Snapshot is what a collection held at a time. It must not be modified.
type Snapshot map[int64]Object

// Snapshot returns what the collection holds.
func (c *Collection) Snapshot() Snapshot {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return maps.Clone(c.objects)
}

// Restore makes the collection hold again what it held at the time of a snapshot. Ids that
// were used since are not used again.
func (c *Collection) Restore(r *rest.Request, s Snapshot) {
	c.mu.Lock()
	before := c.objects
	c.objects = maps.Clone(s)
	for _, object := range s {
		if c.kind.Stored != nil && !reflect.DeepEqual(before[Number(object, "id")], object) {
			c.kind.Stored(r, object)
		}
	}
	c.mu.Unlock()
	for id := range before {
		if s[id] == nil {
			c.forget(id)
		}
	}
}

// nameField returns the field by which people know the objects: the first that is unique, or
// name.
func (c *Collection) nameField() string {
	if len(c.kind.Unique) > 0 {
		return c.kind.Unique[0]
	}
	return "name"
}

// Named returns the id of the object with a name, the oldest if there are several. It reports
// false if there is none.
func (c *Collection) Named(name string) (int64, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	oldest, field := int64(0), c.nameField()
	for id, object := range c.objects {
		if text, ok := object[field].(string); ok && text == name && (oldest == 0 || id < oldest) {
			oldest = id
		}
	}
	return oldest, oldest != 0
}

// Import creates an object from fields that fit the description. If there is one with the same
// name, its fields are replaced if overwrite is set, and it stays as it is otherwise.
func (c *Collection) Import(r *rest.Request, fields Object, overwrite bool) error {
	id, exists := c.Named(Text(fields, c.nameField()))
	if exists && !overwrite {
		return nil
	}
	made := fields
	if !exists {
		made = c.complete(r, fields)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.objects[id]
	switch {
	case before != nil:
		made = maps.Clone(before)
		maps.Copy(made, fields)
		if err := c.denied(r, before, "edit"); err != nil {
			return err
		}
		for _, field := range c.description.Immutable(c.kind.Component) {
			if !reflect.DeepEqual(made[field], before[field]) {
				return fmt.Errorf("%s: the %s %d has another value, which cannot be changed", field, c.kind.Name, id)
			}
		}
	case exists:
		return fmt.Errorf("the %s %d was deleted in the meantime", c.kind.Name, id)
	case len(c.objects) >= c.kind.Max:
		return errors.New("there are too many; delete some first")
	default:
		made["id"] = c.lastID + 1
	}
	if err := c.store(r, before, made); err != nil {
		return err
	}
	c.lastID = max(c.lastID, made["id"].(int64))
	return nil
}

// Change replaces an object by what change returns for it. change must not modify its
// argument. The error is that of change.
func (c *Collection) Change(id int64, change func(Object) (Object, error)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.objects[id]
	if before == nil {
		return fmt.Errorf("no %s has the id %d", c.kind.Name, id)
	}
	after, err := change(before)
	if err != nil {
		return err
	}
	c.objects[id] = after
	return nil
}

// Pairs are the assignments of a relation at a time: parents and their children.
type Pairs [][2]int64

// Snapshot returns what is assigned, in no particular order.
func (l *Relation) Snapshot() Pairs {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var pairs Pairs
	for parent, children := range l.children {
		for child := range children {
			pairs = append(pairs, [2]int64{parent, child})
		}
	}
	return pairs
}

// Restore makes the relation assign again what was assigned at the time of a snapshot.
func (l *Relation) Restore(pairs Pairs) {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.children)
	clear(l.parents)
	l.pairs = len(pairs)
	for _, p := range pairs {
		set(l.children, p[0], p[1], true)
		set(l.parents, p[1], p[0], true)
	}
}

// AssignNamed assigns the child with a name to the parent with a name. Both sides must be
// collections.
func (l *Relation) AssignNamed(parent, child string) error {
	p, err := l.parent.named(parent)
	if err != nil {
		return err
	}
	c, err := l.child.named(child)
	if err != nil {
		return err
	}
	if l.refuse != nil {
		if err := l.refuse(p, c); err != nil {
			return err
		}
	}
	l.mu.RLock()
	full := l.pairs >= maxPairs
	l.mu.RUnlock()
	if full {
		return errors.New("there are too many assignments; unassign some first")
	}
	l.Assign(p, c, true)
	return nil
}

func (s Side) named(name string) (int64, error) {
	c, ok := s.Set.(*Collection)
	if !ok {
		return 0, fmt.Errorf("a %s has no name of its own", s.Name)
	}
	id, ok := c.Named(name)
	if !ok {
		return 0, fmt.Errorf("there is no %s %q", s.Name, name)
	}
	return id, nil
}
