package webhook

import (
	"context"
	"sync"

	"ndrbridge/transform"
)

// part holds the events of one request.
type part struct {
	events  []transform.Event
	indexes []int // of events, in the batch that was split
	size    int   // of the payloads, in bytes
}

// minPartBytes is the smallest size of a part when a batch is split. Parallel
// connections help with large bodies, which take time to transfer, compress and store;
// below this size a request costs both ends as much as its events do.
const minPartBytes = 512 << 10

// split divides the events into at most n parts of about equal size and at least
// minPartBytes each. Events with the same key are in one part, in order, so that the
// parts can be sent concurrently.
func split(events []transform.Event, n int) []part {
	total := 0
	for _, e := range events {
		total += len(e.Payload())
	}
	n = max(1, min(n, total/minPartBytes))
	parts := make([]part, n)
	capacity := len(events)/n + len(events)/n/4
	for i := range parts {
		parts[i].events = make([]transform.Event, 0, capacity)
		parts[i].indexes = make([]int, 0, capacity)
	}
	partOf := make(map[string]*part, len(events))
	for i, e := range events {
		p := partOf[e.PartitionKey]
		if p == nil {
			p = &parts[0]
			for other := range parts {
				if parts[other].size < p.size {
					p = &parts[other]
				}
			}
			partOf[e.PartitionKey] = p
		}
		p.events = append(p.events, e)
		p.indexes = append(p.indexes, i)
		p.size += len(e.Payload())
	}
	for len(parts[n-1].events) == 0 { // fewer keys than parts: the last are empty
		n--
	}
	return parts[:n]
}

// sendParts sends parts of the events concurrently, and the requests of each one after another.
func (s *Sink) sendParts(ctx context.Context, events []transform.Event) error {
	parts := split(events, s.window.size)
	t := newResults(len(events))
	errs := make([]error, len(parts))
	var all sync.WaitGroup
	for i, p := range parts {
		s.window.begin()
		all.Go(func() { errs[i] = s.sendPart(ctx, p, t) })
	}
	all.Wait()
	for _, err := range errs {
		s.window.end(err)
	}
	return t.result()
}

// sendPart sends the events of a part, until they are acknowledged or rejected or another
// failure ends it. It returns the error of the last request.
func (s *Sink) sendPart(ctx context.Context, p part, t *results) (err error) {
	for acknowledged := true; acknowledged && len(p.events) > 0; {
		var n int
		n, err = s.sendLeading(ctx, p.events)
		acknowledged = t.add(p.indexes[:n], err)
		p.events, p.indexes = p.events[n:], p.indexes[n:]
	}
	return err
}
