package tickets

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
	id     uint64
	keys   []orderingKey // of its ticket and its detection
	due    time.Time
	queued bool // in orderedTasks.ready

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

// orderedTasks is a queue of commands. Of the commands with a common ordering key only
// the one accepted first may be carried out; others do not wait for each other. Its
// methods search no list from end to end.
type orderedTasks struct {
	tasks map[uint64]*task
	byKey map[orderingKey][]*task // sorted by id; never empty
	ready []*task                 // by due time, then id, every task that is first for all of its keys; may also hold tasks that no longer are
}

func newOrderedTasks() *orderedTasks {
	return &orderedTasks{tasks: make(map[uint64]*task), byKey: make(map[orderingKey][]*task)}
}

// add inserts a task by its id. It does nothing if the task is there already.
func (q *orderedTasks) add(t *task) {
	if q.tasks[t.id] != nil {
		return
	}
	q.tasks[t.id] = t
	for _, key := range t.keys {
		i, _ := slices.BinarySearchFunc(q.byKey[key], t.id, func(t *task, id uint64) int { return cmp.Compare(t.id, id) })
		q.byKey[key] = slices.Insert(q.byKey[key], i, t)
	}
	q.enqueue(t)
}

// remove removes a task that next returned. The tasks after it may become ready.
func (q *orderedTasks) remove(t *task) {
	delete(q.tasks, t.id)
	for _, key := range t.keys {
		rest := q.byKey[key][1:]
		if len(rest) == 0 {
			delete(q.byKey, key)
			continue
		}
		q.byKey[key] = rest
		q.enqueue(rest[0])
	}
}

// next returns the first task that is due. If none is due it returns nil and the time
// until one is, or 0 if there is none. After trying the task, the caller must call
// remove or postpone.
func (q *orderedTasks) next(now time.Time) (*task, time.Duration) {
	for len(q.ready) > 0 {
		t := q.ready[0]
		if !q.isFirst(t) {
			q.ready, t.queued = q.ready[1:], false
			continue
		}
		if wait := t.due.Sub(now); wait > 0 {
			return nil, wait
		}
		return t, 0
	}
	return nil, 0
}

// postpone makes the task that next returned wait until due.
func (q *orderedTasks) postpone(t *task, due time.Time) {
	q.ready, t.queued = q.ready[1:], false // next returned it, so it is the first
	t.due = due
	q.enqueue(t)
}

func (q *orderedTasks) enqueue(t *task) {
	if !t.queued && q.isFirst(t) {
		t.queued = true
		i, _ := slices.BinarySearchFunc(q.ready, t, func(a, b *task) int { return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.id, b.id)) })
		q.ready = slices.Insert(q.ready, i, t)
	}
}

func (q *orderedTasks) isFirst(t *task) bool {
	for _, key := range t.keys {
		if waiting := q.byKey[key]; len(waiting) == 0 || waiting[0] != t {
			return false
		}
	}
	return true
}
