package lifecycle

import (
	"errors"
	"time"
)

// Closer closes one item after another, after a stop. It abandons those that do not
// close in time, so that the process can exit.
type Closer struct {
	Left []string // names of the items that were abandoned
	Err  error    // the joined errors of the others

	until time.Time
}

// Closer returns a Closer that is patient until shortly after the deadline.
func (d Deadline) Closer() *Closer { return &Closer{until: d.End.Add(windDown + closing)} }

// Close closes the named item by calling f.
func (c *Closer) Close(name string, f func() error) {
	done := make(chan error, 1)
	go func() { done <- f() }()
	timer := time.NewTimer(time.Until(c.until))
	defer timer.Stop()
	select {
	case failed := <-done:
		c.Err = errors.Join(c.Err, failed)
	case <-timer.C:
		c.Left = append(c.Left, name)
	}
}
