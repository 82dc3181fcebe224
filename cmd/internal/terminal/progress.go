package terminal

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// progressEvery is how often a text is written if the stream is not a terminal.
	progressEvery = 10 * time.Second
	// refreshEvery is how often a text is renewed on a terminal while work runs.
	refreshEvery = time.Second
	// eraseLine returns to the beginning of the line and erases it.
	eraseLine = "\r\x1b[K"
)

// Progress shows how far a command is, on a stream for people such as standard error,
// so that it never runs into the command's results. On a terminal, each text overwrites the
// one before, and Clear erases it. Elsewhere each text is a line of its own, and the first
// one and each further one are written after 10 seconds: a command that is done sooner
// writes none. Its methods are safe for concurrent use.
type Progress struct {
	w        io.Writer
	terminal bool

	mu    sync.Mutex
	shown bool      // a text is on the terminal
	last  time.Time // when the last line was written, or the Progress made
}

// NewProgress returns a Progress on w.
func NewProgress(w io.Writer) *Progress {
	return &Progress{w: w, terminal: Is(w), last: time.Now()}
}

// Show shows a text of one line in place of the one before. It may contain text of an
// appliance or a target.
func (p *Progress) Show(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text = Printable(text)
	if p.terminal {
		p.shown = true
		fmt.Fprint(p.w, eraseLine, cut(text, p.columns()))
		return
	}
	if now := time.Now(); now.Sub(p.last) >= progressEvery {
		p.last = now
		fmt.Fprintln(p.w, text)
	}
}

// columns returns how long a text may be so that the terminal does not wrap it.
func (p *Progress) columns() int {
	columns, known := Columns(p.w)
	if !known {
		columns = 80
	}
	return max(columns-1, 1)
}

// Clear erases the text. It is called before anything else is written to the terminal.
func (p *Progress) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		p.shown = false
		fmt.Fprint(p.w, eraseLine)
	}
}

// While calls work and returns its error. Meanwhile it shows the text for the time since
// the call; nothing is shown any more when it returns. text must be safe to call while work
// runs.
func (p *Progress) While(text func(elapsed time.Duration) string, work func() error) error {
	every := progressEvery
	if p.terminal {
		every = refreshEvery
	}
	done := make(chan struct{})
	var showing sync.WaitGroup
	showing.Go(func() {
		ticker, began := time.NewTicker(every), time.Now()
		defer ticker.Stop()
		for {
			select {
			case now := <-ticker.C:
				p.Show(text(now.Sub(began)))
			case <-done:
				return
			}
		}
	})
	defer p.Clear()
	defer showing.Wait()
	defer close(done)
	return work()
}
