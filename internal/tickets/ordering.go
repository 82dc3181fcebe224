package tickets

import (
	"cmp"
	"container/heap"
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
// methods take time logarithmic in the number of keys.
type orderedTasks struct {
	tasks map[uint64]*task
	byKey map[orderingKey][]*task // sorted by id; never empty
	ready readiness               // every task that is first for all of its keys; may also hold tasks that no longer are
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
			heap.Pop(&q.ready)
			t.queued = false
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
	t.due = due
	heap.Fix(&q.ready, 0) // next returned it, so it is the first
}

func (q *orderedTasks) enqueue(t *task) {
	if !t.queued && q.isFirst(t) {
		t.queued = true
		heap.Push(&q.ready, t)
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

// readiness is a heap of tasks ordered by due time, then by id.
type readiness []*task

func (r readiness) Len() int { return len(r) }

func (r readiness) Less(i, j int) bool {
	if c := r[i].due.Compare(r[j].due); c != 0 {
		return c < 0
	}
	return r[i].id < r[j].id
}

func (r readiness) Swap(i, j int) { r[i], r[j] = r[j], r[i] }

func (r *readiness) Push(t any) { *r = append(*r, t.(*task)) }

func (r *readiness) Pop() any {
	last := len(*r) - 1
	t := (*r)[last]
	(*r)[last] = nil
	*r = (*r)[:last]
	return t
}
