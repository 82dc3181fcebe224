package operations

import (
	"context"
	"sync"
	"time"

	"ndrbridge/admin"
	"ndrbridge/transform"
)

// retryTail is the wait before a shard's events are requested again.
const retryTail = 2 * time.Second

// Tail implements admin.Control. Events of one shard are in order; there is none between
// shards. from.Last is divided among the shards that have appliances. If a shard cannot be
// asked or its owner changes, its events go on as soon as it has an owner; then those that were
// recorded at the same time as the last one come again. yield is called for one event at a
// time, and each shard waits until it has returned: at most one event of each is held.
func (c *Control) Tail(ctx context.Context, from admin.From, yield func(transform.Event) error) error {
	begun := time.Now()
	from.Last = c.share(from.Last)
	tailing, stop := context.WithCancel(ctx)
	var shards sync.WaitGroup
	defer shards.Wait()
	defer stop()
	events := make(chan transform.Event)
	for n := range c.shards.Count() {
		shards.Go(func() { c.tailShard(tailing, n, &tailPosition{start: from, begun: begun}, events) })
	}
	for {
		select {
		case e := <-events:
			if err := yield(e); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// share returns how many of the last events of the journals each shard shows, so that those
// with appliances show last together, or a few more.
func (c *Control) share(last uint64) uint64 {
	used := map[int]bool{0: true} // it has the bridge's own events
	for _, a := range c.o.Config().Appliances {
		used[c.shards.Of(a.Name)] = true
	}
	n := uint64(len(used))
	return last/n + (last%n+n-1)/n
}

// tailShard sends the events of a shard until ctx is done.
func (c *Control) tailShard(ctx context.Context, n int, at *tailPosition, events chan<- transform.Event) {
	for ctx.Err() == nil {
		err := c.shards.Shard(n).Tail(ctx, at.next(), func(e transform.Event) error {
			select {
			case events <- e:
				at.last = e.RecordedTime
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if ctx.Err() != nil {
			return
		}
		c.o.Log.Debug("the events of a shard are requested again", "shard", n, "error", err)
		timer := time.NewTimer(retryTail)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// tailPosition is how far the tail of a shard has come.
type tailPosition struct {
	start admin.From
	begun time.Time // when the tail began
	tried bool
	last  time.Time // when the last event was recorded
}

// next returns where the next attempt begins.
func (p *tailPosition) next() admin.From {
	switch {
	case !p.last.IsZero():
		return admin.From{Since: p.last}
	case p.tried && p.start.Since.IsZero():
		return admin.From{Since: p.begun}
	}
	p.tried = true
	return p.start
}
