package ticketserver

import (
	"slices"
	"sync"
	"time"
)

// Ticket is one of Tickets.
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
	Author, Subject, Text string
	Private               bool // Redmine shows it to some accounts alone
	HTML, Reply           bool // of Request Tracker

	ID int // as the time, set by Tickets.Comment
	At time.Time
}

// Tickets holds the tickets of a stand-in. It is safe for concurrent use.
type Tickets struct {
	Initial string // the status of a new ticket
	Now     func() time.Time

	mu       sync.Mutex
	tickets  []*Ticket
	comments int
}

// Open opens a ticket and returns a copy of it.
func (s *Tickets) Open(t Ticket) Ticket {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.ID, t.Status, t.Created = len(s.tickets)+1, s.Initial, s.Now()
	s.tickets = append(s.tickets, &t)
	return t
}

// All returns a copy of the tickets that are not deleted, oldest first.
func (s *Tickets) All() (all []Ticket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tickets {
		if !t.Deleted {
			all = append(all, *t)
		}
	}
	return all
}

// Find returns a copy of a ticket that is not deleted.
func (s *Tickets) Find(id int) (Ticket, bool) {
	all := s.All()
	i := slices.IndexFunc(all, func(t Ticket) bool { return t.ID == id })
	if i < 0 {
		return Ticket{}, false
	}
	return all[i], true
}

// Change changes a ticket. It records when its status changes.
func (s *Tickets) Change(id int, change func(*Ticket)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id < 1 || id > len(s.tickets) {
		return
	}
	t := s.tickets[id-1]
	before := t.Status
	change(t)
	if t.Status != before {
		t.Moves = append(slices.Clip(t.Moves), s.Now())
	}
}

// Comment adds a comment to a ticket.
func (s *Tickets) Comment(id int, c Comment) {
	s.Change(id, func(t *Ticket) {
		s.comments++
		c.ID, c.At = s.comments, s.Now()
		t.Comments = append(slices.Clip(t.Comments), c)
	})
}
