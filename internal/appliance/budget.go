package appliance

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Budget limits the bytes of the pages that its clients hold at once: from before a
// page is requested until Page.Release. Its methods are safe for concurrent use. A
// request waits for its loan before it is sent, as long as its context allows, and for
// more while it is answered, as long as a request may take; then it fails with
// ErrNoMemory.
//
//   - A page is requested with a loan of its expected size, and borrows more if it grows
//     beyond that. Loans are granted in order of request.
//   - An appliance has at most a quarter of the budget, or one page. The clients that
//     Client.Aside returned have a quarter, those of all appliances together: what they hold,
//     however long they wait, is not taken from the streams of their appliance.
//   - Until an appliance has answered, its loans are small: while it is down, its
//     requests last as long as they may, and must not take memory from the others.
//   - A page that grows and finds no free memory may overdraw the budget, one page at a
//     time, and one of the clients aside: so no two pages block each other, no stream waits
//     for a page aside, and the memory in use is bounded by the budget and the maximum size
//     of two answers.
type Budget struct {
	size                    int64
	free                    *semaphore.Weighted
	aside                   *semaphore.Weighted // what clients aside may have
	overdraw, overdrawAside *semaphore.Weighted
	buffers                 sync.Pool // of *pageBuffers
}

// NewBudget returns a Budget of size bytes. A larger page can still be read, alone.
func NewBudget(size int64) *Budget {
	return &Budget{
		size: size, free: semaphore.NewWeighted(size),
		aside: semaphore.NewWeighted(size / 4), overdraw: semaphore.NewWeighted(1), overdrawAside: semaphore.NewWeighted(1),
	}
}

// loan is the part of a Budget that a page has; the zero loan is none.
type loan struct {
	budget    *Budget
	appliance *semaphore.Weighted // what its appliance may have, or Budget.aside
	n         int64               // bytes
	overdraws bool                // it may have any further bytes
}

// share returns how much of the loan counts against what the appliance may have.
func (l *loan) share() int64 { return min(l.n, l.budget.size/4) }

func (l *loan) isAside() bool { return l.appliance == l.budget.aside }

// acquire waits for n bytes, or for the whole budget if that is less, or for the quarter of the
// clients aside.
func (l *loan) acquire(ctx context.Context, n int64) error {
	if l.n = min(n, l.budget.size); l.isAside() {
		l.n = l.share()
	}
	if err := l.appliance.Acquire(ctx, l.share()); err != nil {
		return err
	}
	err := l.budget.free.Acquire(ctx, l.n)
	if err != nil {
		l.appliance.Release(l.share())
	}
	return err
}

// grow acquires n more bytes, or waits for permission to overdraw.
func (l *loan) grow(ctx context.Context, n int64) error {
	if l.n+n <= l.budget.size/4 && l.appliance.TryAcquire(n) {
		if l.budget.free.TryAcquire(n) {
			l.n += n
			return nil
		}
		l.appliance.Release(n)
	}
	err := l.overdraft().Acquire(ctx, 1)
	l.overdraws = err == nil
	return err
}

// overdraft returns the permission that the loan needs to overdraw the budget.
func (l *loan) overdraft() *semaphore.Weighted {
	if l.isAside() {
		return l.budget.overdrawAside
	}
	return l.budget.overdraw
}

// release returns the loan.
func (l *loan) release() {
	l.appliance.Release(l.share())
	l.budget.free.Release(l.n)
	if l.overdraws {
		l.overdraft().Release(1)
	}
	*l = loan{}
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

// Within returns a client like c whose bound pages count against b; nil: against nothing.
func (c *Client) Within(b *Budget) *Client {
	within := *c
	if b == nil {
		return &within
	}
	within.loan = loan{budget: b, appliance: semaphore.NewWeighted(b.size / 4)}
	return &within
}

// rowBytes is the expected size of an object before a stream's first answer.
const rowBytes = 2 << 10

// Bind makes the page count against the Budget of the client that fills it, if it has
// one, until Release, which the caller must call when it has processed an answer.
func (p *Page) Bind() { p.bound = true }

// borrow acquires the memory that page's next answer is expected to need.
func (c *Client) borrow(ctx context.Context, page *Page) error {
	page.Release()
	if c.loan.budget == nil || !page.bound {
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
	loan := c.loan
	if err := loan.acquire(ctx, expected); err != nil {
		return err
	}
	page.loan = loan
	if buffers, ok := loan.budget.buffers.Get().(*pageBuffers); ok && int64(cap(buffers.body)) <= 2*expected {
		page.body, page.Objects = buffers.body[:0], buffers.objects[:0]
	}
	return nil
}

// grow acquires the memory that a body of size bytes needs beyond the page's loan.
func (p *Page) grow(ctx context.Context, size int64) error {
	if p.loan.budget == nil || p.loan.overdraws || size <= p.loan.n {
		return nil
	}
	p.answered, p.last = true, max(p.last, size) // if this fails, the next request acquires it in advance
	return p.loan.grow(ctx, size-p.loan.n)
}

// Release empties the page, and returns its memory to the Budget of the client that
// filled it. The page's former contents must not be used afterwards. A page of a client
// without a Budget keeps its memory.
func (p *Page) Release() {
	p.clear()
	if p.loan.budget == nil {
		return
	}
	if cap(p.body) <= maxPooled {
		p.loan.budget.buffers.Put(&pageBuffers{p.body, p.Objects})
	}
	p.body, p.Objects = nil, nil
	p.loan.release()
}
