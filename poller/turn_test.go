package poller_test

import (
	"context"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/tickets"
	"ndrbridge/poller"
)

// reserving is a client that checks that every page is requested with memory that was
// reserved for it before the turn.
type reserving struct {
	poller.DetectionsClient
	world    *world
	reserved bool
	failures []error // that the next searches for a page end with
	pages    int
}

func (r *reserving) Reserve(context.Context, *appliance.Page, int) error {
	r.reserved = true
	return nil
}

func (r *reserving) SearchDetections(ctx context.Context, s appliance.Search, page *appliance.Page) error {
	if s.Limit == 1 { // not for a page
		return r.DetectionsClient.SearchDetections(ctx, s, page)
	}
	if !r.reserved {
		r.world.Errorf("a page is asked for, with a limit of %d, and has to wait for memory in the turn", s.Limit)
	}
	r.reserved = false
	r.pages++
	if len(r.failures) > 0 {
		err := r.failures[0]
		r.failures = r.failures[1:]
		return &appliance.Error{Status: 200, Err: err}
	}
	return r.DetectionsClient.SearchDetections(ctx, s, page)
}

func TestEveryPageThatIsAskedForAgainHasATurnOfItsOwn(t *testing.T) {
	for name, failures := range map[string][]error{
		"too large":                    {appliance.ErrTooLarge, appliance.ErrTooLarge},
		"no memory for the rest of it": {appliance.ErrNoMemory, appliance.ErrNoMemory},
		"no memory for it again and again": {
			appliance.ErrNoMemory, appliance.ErrNoMemory, appliance.ErrNoMemory, appliance.ErrNoMemory,
			appliance.ErrNoMemory, appliance.ErrNoMemory, appliance.ErrNoMemory, appliance.ErrNoMemory,
		},
	} {
		t.Run(name, func(t *testing.T) {
			state, err := checkpoint.Open(t.TempDir()+"/state.db", checkpoint.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer state.Close()
			ownWrites, err := tickets.LoadOwnWrites(t.Context(), state, "hq")
			if err != nil {
				t.Fatal(err)
			}
			w := newWorld(t)
			client := &reserving{DetectionsClient: w.model, world: w}
			w.client, w.options.OwnWrites, w.options.PageSize = client, ownWrites, 100
			w.restart()
			w.mustPoll()
			w.clock += 60_000
			for range 20 {
				w.add(w.clock)
			}
			w.clock += int64(time.Second / time.Millisecond)
			client.failures, client.pages = failures, 0
			w.mustPoll()
			if client.pages <= len(failures) || len(client.failures) > 0 {
				t.Errorf("%d pages were asked for", client.pages)
			}
			w.judge()
		})
	}
}
