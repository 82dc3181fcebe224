package intake

import "sync"

// troubles is what does not work while other parts of a session do.
type troubles struct {
	k  *Kafka
	mu sync.Mutex
	of map[string]bool
}

func (t *troubles) begin(what string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[string]bool{}
	}
	t.of[what] = true
	t.k.failed(true, err)
}

// forget ends all of them.
func (t *troubles) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.of)
	t.k.opened()
}

// end notes that something works. Once all does, the intake is well.
func (t *troubles) end(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.of, what)
	if len(t.of) == 0 {
		t.k.opened()
	}
}
