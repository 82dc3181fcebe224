package appliance

import (
	"context"
	"slices"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Budget limits the bytes of the pages that its clients hold at once: from before a
// page is requested until Page.Release. Its methods are safe for concurrent use. A
// request waits for its loan before it is sent, as long as its context allows, and for
// more while it is answered, as long as a request may take; then it fails with
// ErrNoMemory.
//
//   - A page is requested with a loan of its expected size, and borrows more if it grows
//     beyond that.
//   - An appliance has at most a quarter of the budget, or one page.
//   - Until an appliance has answered, its loans are small: while it is down, its
//     requests last as long as they may, and must not take memory from the others.
//   - Detections have priority; pages of one class are served in order of request.
//   - A page that grows and finds no free memory may overdraw the budget, one page at a
//     time: so no two pages block each other, and the memory in use is bounded by the
//     budget and the maximum size of one answer.
type Budget struct {
	size int64

	mu      sync.Mutex
	free    int64
	held    map[*link]int64 // by appliance
	over    bool            // a page has overdrawn it
	growing []*loanWaiter
	waiters [2][]*loanWaiter // by class

	buffers sync.Pool // of *pageBuffers
}

// loanWaiter is a request for a loan that has to wait.
type loanWaiter struct {
	owner *link
	n     int64
	loan  loan          // once granted
	ready chan struct{} // closed when granted
}

// loan is a part of a Budget.
type loan struct {
	n        int64 // bytes taken from the budget
	overdraw bool  // and any further bytes
}

// NewBudget returns a Budget of size bytes. A larger page can still be read, alone.
func NewBudget(size int64) *Budget {
	return &Budget{size: size, free: size, held: make(map[*link]int64)}
}

// acquire waits for n bytes, or for the whole budget if that is less. It returns an
// error only if ctx is done.
func (b *Budget) acquire(ctx context.Context, owner *link, class int, n int64) (loan, error) {
	return b.wait(ctx, &b.waiters[class], &loanWaiter{owner: owner, n: min(n, b.size), ready: make(chan struct{})})
}

// grow waits for n more bytes for a page, or for permission to overdraw. It returns an
// error only if ctx is done.
func (b *Budget) grow(ctx context.Context, owner *link, n int64) (loan, error) {
	return b.wait(ctx, &b.growing, &loanWaiter{owner: owner, n: n, ready: make(chan struct{})})
}

func (b *Budget) wait(ctx context.Context, waiters *[]*loanWaiter, w *loanWaiter) (loan, error) {
	b.mu.Lock()
	*waiters = append(*waiters, w)
	b.grant()
	b.mu.Unlock()
	select {
	case <-w.ready:
		return w.loan, nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(*waiters, w); i >= 0 {
		*waiters = slices.Delete(*waiters, i, i+1)
	} else { // it was granted concurrently
		b.put(w.owner, w.loan)
	}
	b.grant()
	return loan{}, ctx.Err()
}

// release returns a loan to the budget.
func (b *Budget) release(owner *link, l loan) {
	if l == (loan{}) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.put(owner, l)
	b.grant()
}

// put is release with b.mu held, and does not grant waiting requests.
func (b *Budget) put(owner *link, l loan) {
	b.free += l.n
	b.over = b.over && !l.overdraw
	if b.held[owner] -= l.n; b.held[owner] == 0 {
		delete(b.held, owner)
	}
}

// grant grants waiting requests as far as memory is available: growing pages first,
// then others. If one of the others does not fit, those behind it wait, too, unless
// only its appliance's own limit blocks it. b.mu is held.
func (b *Budget) grant() {
	b.growing = slices.DeleteFunc(b.growing, func(w *loanWaiter) bool {
		switch {
		case w.n <= b.free && b.held[w.owner]+w.n <= b.size/4:
			b.give(w)
		case !b.over:
			b.over, w.loan.overdraw = true, true
			close(w.ready)
		default:
			return false
		}
		return true
	})
	full := false
	for class, waiters := range b.waiters {
		b.waiters[class] = slices.DeleteFunc(waiters, func(w *loanWaiter) bool {
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

// give grants w its bytes.
func (b *Budget) give(w *loanWaiter) {
	w.loan.n = w.n
	b.free -= w.n
	b.held[w.owner] += w.n
	close(w.ready)
}

// pageBuffers is the memory of a page.
type pageBuffers struct {
	body    []byte
	objects []Object
}

const (
	// smallBody is the initial buffer size of a body.
	smallBody = 32 << 10
	// maxPooled limits the size of a body's buffer that is reused for another page.
	maxPooled = 4 << 20
)

// Within returns a client like c whose bound pages count against b.
func (c *Client) Within(b *Budget) *Client {
	within := *c
	within.budget = b
	return &within
}

// rowBytes is the expected size of an object before a stream's first answer.
const rowBytes = 2 << 10

// Bind makes the page count against the Budget of the client that fills it, if it has
// one, until Release, which the caller must call when it has processed an answer.
func (p *Page) Bind() { p.bound = true }

// loan acquires the memory that page's next answer is expected to need.
func (c *Client) loan(ctx context.Context, page *Page) error {
	page.Release()
	if c.budget == nil || !page.bound {
		return nil
	}
	expected := min(int64(page.most())*rowBytes, maxPooled)
	switch {
	case !c.link.answers.Load(): // it may be down: leave the memory to others
		expected = smallBody
	case page.answered: // an idle stream has small pages, one that lags has full ones
		expected = page.last + page.last/4
	}
	expected = min(max(expected, smallBody), c.maxAnswer)
	l, err := c.budget.acquire(ctx, c.link, c.priority, expected)
	if err != nil {
		return err
	}
	page.budget, page.owner, page.loan = c.budget, c.link, l
	if buffers, ok := c.budget.buffers.Get().(*pageBuffers); ok && int64(cap(buffers.body)) <= 2*expected {
		page.body, page.Objects = buffers.body[:0], buffers.objects[:0]
	}
	return nil
}

// grow acquires the memory that a body of size bytes needs beyond the page's loan.
func (p *Page) grow(ctx context.Context, size int64) error {
	if p.budget == nil || p.loan.overdraw || size <= p.loan.n {
		return nil
	}
	p.answered, p.last = true, max(p.last, size) // if this fails, the next request acquires it in advance
	more, err := p.budget.grow(ctx, p.owner, size-p.loan.n)
	p.loan.n += more.n
	p.loan.overdraw = more.overdraw
	return err
}

// Release empties the page, and returns its memory to the Budget of the client that
// filled it. The page's former contents must not be used afterwards. A page of a client
// without a Budget keeps its memory.
func (p *Page) Release() {
	if p.budget == nil {
		p.clear()
		return
	}
	p.clear()
	if cap(p.body) <= maxPooled {
		p.budget.buffers.Put(&pageBuffers{p.body, p.Objects})
	}
	p.body, p.Objects = nil, nil
	p.decoder = jsontext.Decoder{} // it references the body
	b, l := p.budget, p.loan
	p.budget, p.loan = nil, loan{}
	b.release(p.owner, l)
}
