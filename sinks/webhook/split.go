package webhook

import (
	"context"
	"sync"

	"ndrbridge/internal/failure"
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
	n = min(n, total/minPartBytes)
	if n <= 1 {
		return []part{{events: events}}
	}
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

// sendParts sends parts of the events concurrently, each by send, and joins their errors.
func (s *Sink) sendParts(ctx context.Context, events []transform.Event, send func(context.Context, []transform.Event) error) error {
	parts := split(events, s.window.size)
	errs := make([]error, len(parts))
	var all sync.WaitGroup
	for i, p := range parts {
		s.window.begin()
		all.Go(func() { errs[i] = send(ctx, p.events) })
	}
	all.Wait()
	for _, err := range errs {
		s.window.end(err)
	}
	if len(parts) == 1 {
		return errs[0]
	}
	return join(parts, errs, len(events))
}

// join makes the error of a batch of n events from those of its parts.
//
// If no part returned errors by event and none was acknowledged, it returns the most
// severe error, for the batch as a whole: a rejection then means that one of the events
// is at fault, without identifying it. Otherwise it returns one error for each event.
// The events of a part that was rejected because of one of them are to be sent again:
// in a smaller batch, the faulty event is found sooner.
func join(parts []part, errs []error, n int) error {
	whole := 0 // parts with one error for all of their events
	for _, err := range errs {
		if _, apart := err.(failure.EventErrors); err != nil && !apart {
			whole++
		}
	}
	if worst := mostSevere(errs); worst == nil || whole == len(parts) {
		return worst
	}
	results := make(failure.EventErrors, n)
	for i, p := range parts {
		err := errs[i]
		each, apart := err.(failure.EventErrors)
		if !apart && rank(err) == rejected && len(p.events) > 1 {
			err = withOthers(err)
		} else if !apart {
			err = ofRequest(err, len(p.events))
		}
		for j, index := range p.indexes {
			if results[index] = err; apart {
				results[index] = each[j]
			}
		}
	}
	return results
}
