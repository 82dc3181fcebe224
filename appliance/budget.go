package appliance

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Budget bounds the bytes of the pages that the clients that share it hold at once: from
// before a page is requested until Page.Release. Its methods are safe for concurrent use.
// A request waits for its lease before it is sent, for as long as its context allows, and
// for more while it is answered, for as long as a request may take: then it ends with
// ErrNoMemory.
//
//   - A page is requested with a lease of the size that is expected of it, and leases more
//     if it grows beyond that.
//   - An appliance has at most a quarter of the budget, or one page.
//   - As long as an appliance has not answered, a lease is small: while it is down, its
//     requests last as long as they may, and take no memory from the others.
//   - Detections go first, and pages of one class in the order in which they were asked
//     for.
//   - A page that grows and finds no more may overdraw the budget, one page at a time: so
//     no two wait for each other, and what is in flight is bounded by the budget and the
//     size that one answer may have.
type Budget struct {
	size int64

	mu      sync.Mutex
	free    int64
	held    map[*link]int64 // by appliance
	over    bool            // a page overdraws it
	growing []*leaseWaiter
	waiters [2][]*leaseWaiter // by class

	buffers sync.Pool // of *pageBuffers
}

// leaseWaiter is a request for a lease that has to wait.
type leaseWaiter struct {
	owner *link
	n     int64
	lease lease         // once granted
	ready chan struct{} // closed then
}

// lease is a part of a Budget.
type lease struct {
	n        int64 // bytes taken from the budget
	overdraw bool  // and as many as it takes
}

// NewBudget returns a Budget of size bytes. A page may have more: it is read alone then.
func NewBudget(size int64) *Budget {
	return &Budget{size: size, free: size, held: make(map[*link]int64)}
}

// acquire waits for n bytes, or as many as the budget has. The error is that of ctx.
func (b *Budget) acquire(ctx context.Context, owner *link, class int, n int64) (lease, error) {
	return b.wait(ctx, &b.waiters[class], &leaseWaiter{owner: owner, n: min(n, b.size), ready: make(chan struct{})})
}

// grow waits for n bytes more for a page, or for an overdraft. The error is that of ctx.
func (b *Budget) grow(ctx context.Context, owner *link, n int64) (lease, error) {
	return b.wait(ctx, &b.growing, &leaseWaiter{owner: owner, n: n, ready: make(chan struct{})})
}

func (b *Budget) wait(ctx context.Context, waiters *[]*leaseWaiter, w *leaseWaiter) (lease, error) {
	b.mu.Lock()
	*waiters = append(*waiters, w)
	b.grant()
	b.mu.Unlock()
	select {
	case <-w.ready:
		return w.lease, nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(*waiters, w); i >= 0 {
		*waiters = slices.Delete(*waiters, i, i+1)
	} else { // it was granted in this moment
		b.put(w.owner, w.lease)
	}
	b.grant()
	return lease{}, ctx.Err()
}

// release gives a lease back.
func (b *Budget) release(owner *link, l lease) {
	if l == (lease{}) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.put(owner, l)
	b.grant()
}

// put is release with the lock held, without serving those that wait.
func (b *Budget) put(owner *link, l lease) {
	b.free += l.n
	b.over = b.over && !l.overdraw
	if b.held[owner] -= l.n; b.held[owner] == 0 {
		delete(b.held, owner)
	}
}

// grant serves those that wait, as far as there is something for them: pages that grow,
// and then others. One of these that does not fit lets none behind it pass, unless it is
// its own appliance that has too much.
func (b *Budget) grant() {
	b.growing = slices.DeleteFunc(b.growing, func(w *leaseWaiter) bool {
		switch {
		case w.n <= b.free && b.held[w.owner]+w.n <= b.size/4:
			b.give(w)
		case !b.over:
			b.over, w.lease.overdraw = true, true
			close(w.ready)
		default:
			return false
		}
		return true
	})
	full := false
	for class, waiters := range b.waiters {
		b.waiters[class] = slices.DeleteFunc(waiters, func(w *leaseWaiter) bool {
			if held := b.held[w.owner]; full || held > 0 && held+w.n > b.size/4 {
				return false
			}
			if full = w.n > b.free; full {
				return false
			}
			b.give(w)
			return true
		})
	}
}

// give gives w what it waits for.
func (b *Budget) give(w *leaseWaiter) {
	w.lease.n = w.n
	b.free -= w.n
	b.held[w.owner] += w.n
	close(w.ready)
}

// pageBuffers is the memory of a page.
type pageBuffers struct {
	body    []byte
	objects []Object
	fields  []field
}

const (
	// smallBody is how much memory a body begins with.
	smallBody = 32 << 10
	// maxPooled bounds the bytes of a body, and of the members noted, whose memory is used
	// for another page.
	maxPooled = 4 << 20
)

// Within returns a client like c whose pages count against b if they are bound.
func (c *Client) Within(b *Budget) *Client {
	within := *c
	within.budget = b
	return &within
}

// rowBytes is what an object is expected to have as long as nothing is known of a stream.
const rowBytes = 2 << 10

// Bind makes the page count against the Budget of the client that fills it, if that has
// one, until Release, which the caller then has to call when it has done with an answer.
func (p *Page) Bind() { p.bound = true }

// Reserve waits for the memory that the next answer with most objects is expected to need,
// which otherwise the request does.
func (c *Client) Reserve(ctx context.Context, page *Page, most int) error {
	page.most = most
	if err := c.lease(ctx, page); err != nil {
		return fmt.Errorf("wait for memory for an answer: %w", err)
	}
	page.reserved = page.budget != nil
	return nil
}

// lease takes for page what its next answer is expected to need.
func (c *Client) lease(ctx context.Context, page *Page) error {
	if page.reserved {
		page.reserved = false
		return nil
	}
	page.Release()
	if c.budget == nil || !page.bound {
		return nil
	}
	most := page.most
	if most <= 0 {
		most = maxRows
	}
	expected := min(int64(most)*rowBytes, maxPooled)
	switch {
	case !c.link.answers.Load(): // it may be down: the others get the memory meanwhile
		expected = smallBody
	case page.asked: // a stream that is idle shows little, and one that is behind full pages
		expected = page.last + page.last/4
	}
	expected = min(max(expected, smallBody), c.maxAnswer)
	l, err := c.budget.acquire(ctx, c.link, c.queue, expected)
	if err != nil {
		return err
	}
	page.budget, page.owner, page.lease = c.budget, c.link, l
	if buffers, ok := c.budget.buffers.Get().(*pageBuffers); ok && int64(cap(buffers.body)) <= 2*expected {
		page.body, page.Objects, page.fields = buffers.body[:0], buffers.objects[:0], buffers.fields[:0]
	}
	return nil
}

// grow takes what a body of size bytes needs beyond the page's lease.
func (p *Page) grow(ctx context.Context, size int64) error {
	if p.budget == nil || p.lease.overdraw || size <= p.lease.n {
		return nil
	}
	p.asked, p.last = true, max(p.last, size) // the next request takes it at once, if this fails
	more, err := p.budget.grow(ctx, p.owner, size-p.lease.n)
	p.lease.n += more.n
	p.lease.overdraw = more.overdraw
	return err
}

// Release empties the page, and gives back its memory and its part of the Budget of the
// client that filled it. What the page held must not be used any more. A page of a client
// without a Budget keeps its memory.
func (p *Page) Release() {
	if p.budget == nil {
		p.clear()
		return
	}
	p.clear()
	if cap(p.body) <= maxPooled && cap(p.fields)*16 <= maxPooled {
		p.budget.buffers.Put(&pageBuffers{p.body, p.Objects, p.fields})
	}
	p.body, p.Objects, p.fields = nil, nil, nil
	p.decoder = jsontext.Decoder{} // it holds on to the body
	b, l := p.budget, p.lease
	p.budget, p.lease, p.reserved = nil, lease{}, false
	b.release(p.owner, l)
}
