package webhook

import (
	"sync"

	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// part is what one request of batch mode carries.
type part struct {
	events  []transform.Event
	indexes []int // of events, among those that were cut
	size    int   // of events, in structured form
}

// worthARequest is how many bytes of events a request has at least before the
// batch is cut into more. Connections in parallel help with large bodies, which
// take their time on the wire, to compress and to be stored; below this size a
// request costs both ends as much as what it carries.
const worthARequest = 512 << 10

// cut divides the events among at most n requests of about equal size, or as
// few as hold worthARequest each. Events of one key are in one part, in their
// order, so that the requests can be in flight at once.
func cut(events []transform.Event, n int) []part {
	total := 0
	for _, e := range events {
		total += len(e.Structured())
	}
	n = min(n, total/worthARequest)
	if n <= 1 {
		return []part{{events: events}}
	}
	parts := make([]part, n)
	space := len(events)/n + len(events)/n/4
	for i := range parts {
		parts[i].events = make([]transform.Event, 0, space)
		parts[i].indexes = make([]int, 0, space)
	}
	home := make(map[string]*part, len(events))
	for i, e := range events {
		p := home[e.PartitionKey]
		if p == nil {
			p = &parts[0]
			for other := range parts {
				if parts[other].size < p.size {
					p = &parts[other]
				}
			}
			home[e.PartitionKey] = p
		}
		p.events = append(p.events, e)
		p.indexes = append(p.indexes, i)
		p.size += len(e.Structured())
	}
	for len(parts[n-1].events) == 0 { // fewer keys than parts: the last are empty
		n--
	}
	return parts[:n]
}

// inParts posts parts of the events, all at once, and joins their failures.
func (s *Sink) inParts(events []transform.Event, post func(part) *failure) error {
	parts := cut(events, s.concurrency)
	failures := make([]*failure, len(parts))
	var others sync.WaitGroup
	for i := range parts[1:] {
		others.Go(func() { failures[i+1] = post(parts[i+1]) })
	}
	failures[0] = post(parts[0])
	others.Wait()
	return join(parts, failures, len(events))
}

// join makes the error of a batch of n events from those of its parts.
//
// Where no part tells its events apart and none was acknowledged it is the most severe
// of them, for the events as a whole: a rejection then says that one of them is at
// fault, not which. Else it tells the events apart, and those of a part that was
// rejected for one of them are to be sent again: the fewer they are, the nearer
// that one is to being alone.
func join(parts []part, failures []*failure, n int) error {
	var worst error
	failed := 0
	for _, f := range failures {
		if f == nil {
			continue
		}
		if _, apart := f.err.(sinks.EventErrors); !apart {
			failed++
		} else if len(parts) == 1 {
			return f.err
		}
		if worst == nil || rank(mostSevere(f.err)) > rank(mostSevere(worst)) {
			worst = f.err
		}
	}
	if worst == nil || failed == len(parts) {
		return worst
	}
	results := make(sinks.EventErrors, n)
	for i, f := range failures {
		if f == nil {
			continue
		}
		err := f.err
		if each, ok := err.(sinks.EventErrors); ok {
			for n, index := range parts[i].indexes {
				results[index] = each[n]
			}
			continue
		}
		if class, _ := sinks.ClassOf(err); class == sinks.Rejected && len(parts[i].events) > 1 {
			err = withOthers(err)
		}
		for _, index := range parts[i].indexes {
			results[index] = err
		}
	}
	return results
}

func rank(err error) int {
	switch class, _ := sinks.ClassOf(err); class {
	case sinks.Halted:
		return 3
	case sinks.Throttled:
		return 2
	case sinks.Transient:
		return 1
	}
	return 0
}
