package ticketserver

import (
	"slices"
	"sync"
	"time"
)

// Ticket is a ticket of a Desk.
type Ticket struct {
	ID                int
	Subject, Text     string
	Reference         string // by which it is found again
	Status, Assignee  string
	Comments          []Comment
	Created           time.Time
	Moves             []time.Time // when the status changed
	Deleted, Archived bool        // an archived ticket cannot be changed
}

// Comment is a comment on a ticket.
type Comment struct {
	Subject, Text string
	At            time.Time
}

// Desk holds the tickets of a stand-in. It is safe for concurrent use.
type Desk struct {
	Initial string // the status of a new ticket
	Now     func() time.Time

	mu      sync.Mutex
	tickets []*Ticket
}

// Open opens a ticket and returns a copy of it.
func (d *Desk) Open(t Ticket) Ticket {
	d.mu.Lock()
	defer d.mu.Unlock()
	t.ID, t.Status, t.Created = len(d.tickets)+1, d.Initial, d.Now()
	d.tickets = append(d.tickets, &t)
	return t
}

// All returns a copy of the tickets that are not deleted, oldest first.
func (d *Desk) All() (all []Ticket) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.tickets {
		if !t.Deleted {
			all = append(all, *t)
		}
	}
	return all
}

// Find returns a copy of a ticket that is not deleted.
func (d *Desk) Find(id int) (Ticket, bool) {
	all := d.All()
	i := slices.IndexFunc(all, func(t Ticket) bool { return t.ID == id })
	if i < 0 {
		return Ticket{}, false
	}
	return all[i], true
}

// Change changes a ticket. It records when its status changes.
func (d *Desk) Change(id int, change func(*Ticket)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if id < 1 || id > len(d.tickets) {
		return
	}
	t := d.tickets[id-1]
	before := t.Status
	change(t)
	if t.Status != before {
		t.Moves = append(slices.Clip(t.Moves), d.Now())
	}
}

// Comment adds a comment to a ticket.
func (d *Desk) Comment(id int, subject, text string) {
	d.Change(id, func(t *Ticket) {
		t.Comments = append(slices.Clip(t.Comments), Comment{subject, text, d.Now()})
	})
}
