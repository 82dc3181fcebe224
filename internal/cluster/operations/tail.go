package operations

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/transform"
)

// retryTail is the wait before a shard's events are requested again.
const retryTail = 2 * time.Second

// tail merges the tails of the shards. Events of one shard are in order; there is none between
// shards. from.Last is divided among the shards that have appliances. If a shard cannot be
// asked or its owner changes, its events go on as soon as it has an owner; then those that were
// recorded at the same time as the last one come again. yield is called for one event at a
// time, and each shard waits until it has returned: at most one event of each is held.
func (c *control) tail(ctx context.Context, r admin.TailRequest) error {
	begun, from, yield := time.Now(), r.From, r.Yield
	from.Last = c.share(from.Last)
	live := from.Live
	tailing, stop := context.WithCancel(ctx)
	var shards sync.WaitGroup
	defer shards.Wait()
	defer stop()
	events := make(chan shardEvent)
	for n := range c.shards.Count() {
		shards.Go(func() { c.tailShard(tailing, n, &tailPosition{start: from, begun: begun}, events) })
	}
	waiting := c.shards.Count() // shards that are not live
	var missing []error
	for {
		select {
		case e := <-events:
			if !e.live {
				if err := yield(e.event); err != nil {
					return err
				}
				break
			}
			if e.missing != nil {
				missing = append(missing, e.missing)
			}
			if waiting--; waiting == 0 {
				if err := live(errors.Join(missing...)); err != nil {
					return err
				}
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// share returns how many of the last events of the journals each shard shows, so that those
// with appliances show last together, or a few more.
func (c *control) share(last uint64) uint64 {
	used := map[int]bool{0: true} // it has the bridge's own events
	for _, a := range c.o.Config().Appliances {
		used[c.shards.Of(a.Name)] = true
	}
	n := uint64(len(used))
	return last/n + (last%n+n-1)/n
}

// shardEvent is an event of a shard, or the report that the shard is live: it has sent the
// events that were selected, or could not because of missing.
type shardEvent struct {
	event   transform.Event
	live    bool
	missing error
}

// tailShard sends the events of a shard until ctx is done, and once that it is live if
// at.start.Live is set.
func (c *control) tailShard(ctx context.Context, n int, at *tailPosition, events chan<- shardEvent) {
	send := func(e shardEvent) error {
		select {
		case events <- e:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	awaited := at.start.Live != nil
	live := func(missing error) error {
		awaited = false
		return send(shardEvent{live: true, missing: missing})
	}
	for ctx.Err() == nil {
		from := at.next()
		if from.Live = nil; awaited {
			from.Live = live
		}
		err := c.shards.Shard(n).Tail(ctx, from, func(e transform.Event) error {
			err := send(shardEvent{event: e})
			if err == nil {
				at.last = e.RecordedTime
			}
			return err
		})
		if ctx.Err() != nil {
			return
		}
		if awaited && live(fmt.Errorf("shard %s: %w", configs.ShardName(n), err)) != nil {
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
