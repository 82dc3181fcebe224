package tickets

import (
	"cmp"
	"container/heap"
	"hash/fnv"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// task is a command that is to be carried out.
type task struct {
	id   uint64
	keys []orderingKey // in which it waits: that of its ticket, that of its detection
	due  time.Time
	// queued says that it is among the ready.
	queued bool

	retry      backoff.BackOff // nil until it failed
	othersDone uint64          // how many others had passed when it failed last
	failures   int             // how often it failed although others passed
}

// orderingKey stands for a ticket or a detection. Two of them that share one by chance wait
// for each other, which does no harm.
type orderingKey uint64

func newOrderingKey(name string) orderingKey {
	h := fnv.New64a()
	h.Write([]byte(name))
	return orderingKey(h.Sum64())
}

// orderedTasks order commands: of those that are about the same ticket, or the same
// detection, only the one accepted first may be carried out. Others do not wait for
// each other. Nothing here costs more with many lines than their logarithm.
type orderedTasks struct {
	tasks map[uint64]*task
	of    map[orderingKey][]*task // in the order of their ids; none is empty
	ready readiness               // every task that is the first of all its lines, and some that were
}

func newOrderedTasks() *orderedTasks {
	return &orderedTasks{tasks: make(map[uint64]*task), of: make(map[orderingKey][]*task)}
}

// add lets a task wait, in its place by its id. One that is there stays as it is.
func (l *orderedTasks) add(t *task) {
	if l.tasks[t.id] != nil {
		return
	}
	l.tasks[t.id] = t
	for _, name := range t.keys {
		i, _ := slices.BinarySearchFunc(l.of[name], t.id, func(t *task, id uint64) int { return cmp.Compare(t.id, id) })
		l.of[name] = slices.Insert(l.of[name], i, t)
	}
	l.queue(t)
}

// remove takes out a task that next returned: those behind it may be the first now.
func (l *orderedTasks) remove(t *task) {
	delete(l.tasks, t.id)
	for _, name := range t.keys {
		rest := l.of[name][1:]
		if len(rest) == 0 {
			delete(l.of, name)
			continue
		}
		l.of[name] = rest
		l.queue(rest[0])
	}
}

// next returns the first task that is due; else nil, and how long it is until one
// is. 0: there is none. Whoever has tried it removes or postpones it.
func (l *orderedTasks) next(now time.Time) (*task, time.Duration) {
	for len(l.ready) > 0 {
		t := l.ready[0]
		if !l.isFirst(t) {
			heap.Pop(&l.ready)
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

// postpone lets the task that next returned wait until due.
func (l *orderedTasks) postpone(t *task, due time.Time) {
	t.due = due
	heap.Fix(&l.ready, 0) // it is the first of the ready
}

func (l *orderedTasks) queue(t *task) {
	if !t.queued && l.isFirst(t) {
		t.queued = true
		heap.Push(&l.ready, t)
	}
}

func (l *orderedTasks) isFirst(t *task) bool {
	for _, name := range t.keys {
		if line := l.of[name]; len(line) == 0 || line[0] != t {
			return false
		}
	}
	return true
}

// readiness is a heap: what is due first, then what was accepted first.
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
