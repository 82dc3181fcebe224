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
// shards. from.Last is divided among the shards that have events. If a shard cannot be asked
// or its owner changes, its events go on as soon as it has an owner; then some may come
// twice. yield is called for one event at a time, and each shard waits until it has
// returned: at most one event of each is held.
func (c *Control) Tail(ctx context.Context, from admin.From, yield func(transform.Event) error) error {
	begun := time.Now()
	starts := c.starts(ctx, from)
	tailing, stop := context.WithCancel(ctx)
	var shards sync.WaitGroup
	defer shards.Wait()
	defer stop()
	events := make(chan transform.Event)
	for n, start := range starts {
		shards.Go(func() { c.tailShard(tailing, n, &tailPosition{start: start, begun: begun}, events) })
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

// starts returns where the tail of each shard begins.
func (c *Control) starts(ctx context.Context, from admin.From) []admin.From {
	starts := make([]admin.From, c.shards.Count())
	for n := range starts {
		starts[n].Since = from.Since
	}
	if !from.Since.IsZero() || from.Last == 0 {
		return starts
	}
	has := make([]uint64, len(starts))
	for _, a := range c.statuses(ctx) {
		has[a.shard] = a.value.State.Journal.Events
	}
	for n, share := range divide(from.Last, has) {
		starts[n].Last = share
	}
	return starts
}

// divide returns the shares of a number among several that have so many: equal ones, unless
// one has less. Their sum may exceed the number by less than one each.
func divide(number uint64, has []uint64) []uint64 {
	shares := make([]uint64, len(has))
	for number > 0 {
		var hungry uint64 // those that have more
		for i := range has {
			if has[i] > shares[i] {
				hungry++
			}
		}
		if hungry == 0 {
			break
		}
		each := (number + hungry - 1) / hungry
		for i := range has {
			more := min(each, has[i]-shares[i])
			shares[i] += more
			number -= min(number, more)
		}
	}
	return shares
}

// tailShard sends the events of a shard until ctx is done.
func (c *Control) tailShard(ctx context.Context, n int, at *tailPosition, events chan<- transform.Event) {
	for ctx.Err() == nil {
		err := c.shards.Shard(n).Tail(ctx, at.next(), func(e transform.Event) error {
			if at.isRepeated(e) {
				return nil
			}
			select {
			case events <- e:
				at.add(e)
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
	last  time.Time          // when the last event was recorded
	ids   map[[2]string]bool // source and id of the events recorded at last
}

// maxTailIDs is the maximum number of events recorded at one time that are recognized if
// they come again.
const maxTailIDs = 1000

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

func (p *tailPosition) isRepeated(e transform.Event) bool {
	return e.RecordedTime.Equal(p.last) && p.ids[[2]string{e.Source, e.ID}]
}

func (p *tailPosition) add(e transform.Event) {
	if e.RecordedTime.After(p.last) {
		p.last, p.ids = e.RecordedTime, make(map[[2]string]bool)
	}
	if e.RecordedTime.Equal(p.last) && len(p.ids) < maxTailIDs {
		p.ids[[2]string{e.Source, e.ID}] = true
	}
}
