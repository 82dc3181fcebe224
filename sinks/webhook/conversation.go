package webhook

import (
	"context"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/failure"
	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// Conversation sends the requests of a Preset about the leading events of a batch, or of none in
// [Preset.Poll], and stores what it remembers. It is used by one goroutine, until [Preset.Converse]
// or Poll returns.
type Conversation struct {
	sink   *Sink
	events []transform.Event
	known  [][]byte // nil without a memory
	// deadline is when the timeout ends, which covers all requests. It begins when the rate
	// limit permits the first.
	deadline time.Time
	receipt  string // of the last answer, if it is not reported
	failed   error  // the last error that a method returned: it is complete
}

// Known returns the value remembered for the event at index i, or nil.
func (c *Conversation) Known(i int) []byte {
	if c.known == nil {
		return nil
	}
	return c.known[i]
}

// Do sends a request and returns the answer. An answer of 1xx or 3xx, and an HTML page with 2xx,
// is an error. Converse returns the errors of Do as they are.
func (c *Conversation) Do(ctx context.Context, r Request) (Answer, error) {
	a, err := c.exchange(ctx, r)
	if err == nil && a.isPage() {
		err = c.sink.report(a.Refusal())
	}
	c.failed = err
	return a, err
}

// exchange is Do, and returns HTML pages too.
func (c *Conversation) exchange(ctx context.Context, r Request) (Answer, error) {
	s := c.sink
	c.reportReceipt(ctx)
	if len(r.Body) > s.o.MaxBodyBytes {
		return Answer{}, s.report(s.notSent(s.o.tooLarge(r.Body)))
	}
	first := c.deadline.IsZero()
	if first {
		if err := s.waitForRate(ctx); err != nil {
			return Answer{}, err
		}
		c.deadline = time.Now().Add(s.o.Timeout)
	}
	ctx, cancel := context.WithDeadlineCause(ctx, c.deadline, errNoAnswer)
	defer cancel()
	if !first {
		select {
		case <-time.After(r.After):
		case <-ctx.Done():
			return Answer{}, s.notAnswered(ctx, ctx.Err())
		}
		if err := s.waitForRate(ctx); err != nil {
			return Answer{}, err
		}
	}
	a, err := s.roundTrip(ctx, r, c.events[:min(len(c.events), max(1, r.Events))])
	if err == nil {
		c.receipt = s.target + ": " + statusText(a.Status)
	}
	return a, err
}

// Recall returns the value remembered under a key, which may be that of another event; nil if there
// is none. Converse returns its error as it is.
func (c *Conversation) Recall(ctx context.Context, key string) (value []byte, err error) {
	if c.failed = nil; !c.sink.remembers() {
		return nil, nil
	}
	values, err := c.sink.o.Memory.recallKeys(ctx, []string{key})
	if err != nil {
		c.failed = failure.Unavailable(failure.ScopeTarget, "%s: not sent: %w", c.sink.target, err)
		return nil, c.failed
	}
	return values[0], nil
}

// Remember stores values by their keys, such as the Key of an event, and journals events about them in the same
// transaction, even if ctx is done: the object that they name exists already, and would be created
// again. Converse returns its error as it is. Without a memory it does nothing.
func (c *Conversation) Remember(ctx context.Context, values map[string][]byte, about ...transform.Event) error {
	c.failed = nil
	if !c.sink.remembers() {
		return nil
	}
	if err := c.sink.o.Memory.remember(ctx, values, about); err != nil {
		c.failed = failure.Unavailable(failure.ScopeTarget, "%s: sent, but its result could not be stored: %w", c.sink.target, err)
	}
	return c.failed
}

// Remembered returns the keys and values that the sink remembers behind a key, in the order of keys,
// at most limit of them; "" comes before all keys.
func (c *Conversation) Remembered(ctx context.Context, after string, limit int) ([]checkpoint.Entry, error) {
	m := c.sink.o.Memory
	return m.Store.RememberedBySink(ctx, m.Sink, after, limit)
}

// Quote returns the beginning of a text for an error or a report, as Answer.Quote does.
func (c *Conversation) Quote(text string) string { return Answer{secrets: c.sink.hidden()}.Quote(text) }

// Report tells a person who sent a test event what became of it. Others do not see it.
func (c *Conversation) Report(ctx context.Context, text string) {
	c.reportReceipt(ctx)
	if report := sinks.Receipts(ctx); report != nil {
		report(text)
	}
}

// reportReceipt reports the last answer, which was accepted.
func (c *Conversation) reportReceipt(ctx context.Context) {
	if report := sinks.Receipts(ctx); report != nil && c.receipt != "" {
		report(c.receipt)
	}
	c.receipt = ""
}
