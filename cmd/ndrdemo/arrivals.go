package main

import (
	"sync"

	"ndrbridge/test/ledger"
	"ndrbridge/transform"
)

// arrivals records the events that reached each sink. It is safe for concurrent use.
type arrivals struct {
	ledger *ledger.Ledger

	mu     sync.Mutex
	counts map[string]*count
}

type count struct {
	events, duplicates int
	ids                map[string]struct{} // source and id
}

func newArrivals() *arrivals {
	a := &arrivals{ledger: ledger.New(), counts: make(map[string]*count)}
	for _, o := range demoSinks {
		a.counts[o.name] = &count{ids: make(map[string]struct{})}
	}
	return a
}

// receive records an event that reached a sink, in structured mode. It keeps structured.
// Events of the bridge itself are not recorded.
func (a *arrivals) receive(sink string, structured []byte) (transform.Event, error) {
	e, err := transform.Parse(structured)
	if err != nil || e.Stream() == transform.StreamEvents {
		return e, err
	}
	a.ledger.Receive(sink, e)

	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.counts[sink]
	c.events++
	id := e.Source + " " + e.ID
	if _, known := c.ids[id]; known {
		c.duplicates++
	}
	c.ids[id] = struct{}{}
	return e, nil
}

// count returns how many events reached a sink, and how many of them were duplicates.
func (a *arrivals) count(sink string) (events, duplicates int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.counts[sink]
	return c.events, c.duplicates
}
