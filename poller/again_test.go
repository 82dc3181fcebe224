package poller_test

import (
	"context"
	"testing"
	"time"

	"ndrbridge/internal/appliance"
	"ndrbridge/poller"
	"ndrbridge/test/assert"
)

// refusing is a client whose searches for a page end with errors.
type refusing struct {
	poller.DetectionsClient
	failures []error // of the next searches
	pages    int
}

func (r *refusing) SearchDetections(ctx context.Context, s appliance.Search, page *appliance.Page) error {
	if s.Limit == 1 { // not for a page
		return r.DetectionsClient.SearchDetections(ctx, s, page)
	}
	r.pages++
	if len(r.failures) > 0 {
		err := r.failures[0]
		r.failures = r.failures[1:]
		return &appliance.Error{Status: 200, Err: err}
	}
	return r.DetectionsClient.SearchDetections(ctx, s, page)
}

func TestAPageWithoutMemoryIsRequestedAgainInTheSamePoll(t *testing.T) {
	for name, failures := range map[string][]error{
		"too large":                    {appliance.ErrTooLarge, appliance.ErrTooLarge},
		"no memory for the rest of it": {appliance.ErrNoMemory, appliance.ErrNoMemory},
		"no memory for it again and again": {
			appliance.ErrNoMemory, appliance.ErrNoMemory, appliance.ErrNoMemory, appliance.ErrNoMemory,
			appliance.ErrNoMemory, appliance.ErrNoMemory, appliance.ErrNoMemory, appliance.ErrNoMemory,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			client := &refusing{DetectionsClient: w.model}
			w.client, w.options.PageSize = client, 100
			w.restart()
			w.mustPoll()
			w.clock += 60_000
			for range 20 {
				w.add(w.clock)
			}
			w.clock += int64(time.Second / time.Millisecond)
			client.failures, client.pages = failures, 0
			w.mustPoll()
			assert.True(t, client.pages > len(failures), client.pages, "pages were asked for")
			assert.Empty(t, client.failures)
			w.judge()
		})
	}
}
