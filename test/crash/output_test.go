package crash

import (
	"bytes"
	"sync"
)

// output collects the output of a process.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String returns the whole output.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// end returns the end of the output.
func (o *output) end() string {
	const most = 10_000
	text := o.String()
	return text[max(0, len(text)-most):]
}

func (o *output) has(text string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Contains(o.text.Bytes(), []byte(text))
}
