package forward

import (
	"fmt"
	"strings"
	"sync"
)

// memoryBus is a bus in memory. Its zero value is ready to use.
type memoryBus struct {
	// deliver returns the messages that arrive when one is published; nil: that one.
	deliver func(subject string, m message) []message

	mu        sync.Mutex
	inboxes   int
	receivers map[string][]*receiver
	published []string // subjects
}

// receiver calls a function for each message, one at a time.
type receiver struct {
	receive func(message)
	mu      sync.Mutex
	pending []message
	busy    bool
	ended   bool
}

func (r *receiver) put(m message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = append(r.pending, m)
	if !r.busy {
		r.busy = true
		go r.run()
	}
}

func (r *receiver) run() {
	for {
		r.mu.Lock()
		if len(r.pending) == 0 || r.ended {
			r.busy = false
			r.mu.Unlock()
			return
		}
		m := r.pending[0]
		r.pending = r.pending[1:]
		r.mu.Unlock()
		r.receive(m)
	}
}

func (b *memoryBus) newInbox() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inboxes++
	return fmt.Sprintf("_INBOX.%d", b.inboxes)
}

func (b *memoryBus) isInbox(subject string) bool { return strings.HasPrefix(subject, "_INBOX.") }

func (b *memoryBus) maxPayload() int { return 1 << 20 }

func (b *memoryBus) subscribe(subject string, receive func(message)) (func(), error) {
	r := &receiver{receive: receive}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.receivers == nil {
		b.receivers = make(map[string][]*receiver)
	}
	b.receivers[subject] = append(b.receivers[subject], r)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ended = true
		var others []*receiver
		for _, other := range b.receivers[subject] {
			if other != r {
				others = append(others, other)
			}
		}
		b.receivers[subject] = others
	}, nil
}

func (b *memoryBus) publish(subject, reply string, data []byte) error {
	m := message{reply: reply, data: append([]byte(nil), data...)}
	b.mu.Lock()
	b.published = append(b.published, subject)
	receivers, deliver := b.receivers[subject], b.deliver
	b.mu.Unlock()
	arriving := []message{m}
	if deliver != nil {
		arriving = deliver(subject, m)
	}
	if len(receivers) == 0 && reply != "" {
		b.mu.Lock()
		receivers = b.receivers[reply]
		b.mu.Unlock()
		arriving = []message{{nobody: true}}
	}
	for _, m := range arriving {
		for _, r := range receivers {
			r.put(m)
		}
	}
	return nil
}

// set replaces deliver.
func (b *memoryBus) set(deliver func(subject string, m message) []message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deliver = deliver
}

// subjects returns the subjects to which something was published.
func (b *memoryBus) subjects() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.published...)
}
