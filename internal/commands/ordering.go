package commands

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"

	"ndrbridge/internal/poison"
)

// task is a command that waits to be carried out.
type task struct {
	id   uint64
	keys []orderingKey // of its ticket and its detection
	due  time.Time     // zero: it was not tried yet

	retry    backoff.BackOff // nil until it failed
	failures poison.Failures // with Writer.done as the successes
}

// orderingKey identifies a ticket or a detection. If two of them have the same key by
// chance, their commands wait for each other, which does no harm.
type orderingKey uint64

func newOrderingKey(name string) orderingKey {
	h := fnv.New64a()
	h.Write([]byte(name))
	return orderingKey(h.Sum64())
}

// orderedTasks is a queue of commands, sorted by id. Of the commands with a common ordering key
// only the one accepted first may be carried out; others do not wait for each other.
type orderedTasks []*task

// find returns the position of a command, or the one at which it belongs.
func (q orderedTasks) find(id uint64) (i int, found bool) {
	return slices.BinarySearchFunc(q, id, func(t *task, id uint64) int { return cmp.Compare(t.id, id) })
}

// add inserts a task by its id. It does nothing if the task is there already.
func (q *orderedTasks) add(t *task) {
	if i, found := q.find(t.id); !found {
		*q = slices.Insert(*q, i, t)
	}
}

// remove removes a task. The tasks after it may become ready.
func (q *orderedTasks) remove(t *task) {
	if i, found := q.find(t.id); found {
		*q = slices.Delete(*q, i, i+1)
	}
}

// next returns the task that is due first. If none is due it returns nil and the time until one
// is, or 0 if there is none.
func (q orderedTasks) next(now time.Time) (*task, time.Duration) {
	var first *task
	waiting := make(map[orderingKey]bool)
	for _, t := range q {
		free := !slices.ContainsFunc(t.keys, func(key orderingKey) bool { return waiting[key] })
		if free && t.due.IsZero() {
			return t, 0
		}
		if free && (first == nil || t.due.Before(first.due)) {
			first = t
		}
		for _, key := range t.keys {
			waiting[key] = true
		}
	}
	if first == nil {
		return nil, 0
	}
	if wait := first.due.Sub(now); wait > 0 {
		return nil, wait
	}
	return first, 0
}
