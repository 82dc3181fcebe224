package intake

import "sync"

// failures tracks the failing parts of a session while others work. It is safe for
// concurrent use.
type failures struct {
	k  *Kafka
	mu sync.Mutex
	of map[string]bool
}

func (f *failures) begin(what string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil {
		f.of = map[string]bool{}
	}
	f.of[what] = true
	f.k.failed(true, err)
}

// clear removes all failures.
func (f *failures) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.of)
	f.k.opened()
}

// end removes a failure. The intake is open without an error once there is none.
func (f *failures) end(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.of, what)
	if len(f.of) == 0 {
		f.k.opened()
	}
}
