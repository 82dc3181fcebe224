package tickets_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"ndrbridge/checkpoint"
)

// commands keeps commands in memory.
type commands struct {
	mu       sync.Mutex
	all      []checkpoint.Command
	expected map[string]checkpoint.Entry
	accepted chan struct{}
	events   []string
}

func newCommands() *commands {
	return &commands{expected: make(map[string]checkpoint.Entry), accepted: make(chan struct{})}
}

func (s *commands) Accept(_ context.Context, cs []checkpoint.Command) ([]checkpoint.Acceptance, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []checkpoint.Acceptance
	for _, c := range cs {
		c.ID, c.State = uint64(len(s.all)+1), checkpoint.CommandPending
		s.all = append(s.all, c)
		out = append(out, checkpoint.Acceptance{ID: c.ID})
	}
	close(s.accepted)
	s.accepted = make(chan struct{})
	return out, nil
}

func (s *commands) Commands(_ context.Context, f checkpoint.CommandFilter, after uint64, limit int) ([]checkpoint.Command, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []checkpoint.Command
	for _, c := range s.all {
		if c.ID > after && len(out) < limit && (f.State == "" || f.State == c.State) && (f.Appliance == "" || f.Appliance == c.Appliance) {
			out = append(out, c)
		}
	}
	return out, nil
}

func (s *commands) Command(_ context.Context, id uint64) (checkpoint.Command, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[id-1], true, nil
}

func (s *commands) Note(_ context.Context, id uint64, note []byte, expect []checkpoint.Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[id-1].State != checkpoint.CommandPending {
		return checkpoint.ErrFenced
	}
	s.all[id-1].Note = note
	for _, e := range expect {
		s.expected[e.Key] = e
	}
	return nil
}

func (s *commands) Finish(_ context.Context, o checkpoint.Outcome) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.all[o.ID-1]
	if c.State != checkpoint.CommandPending {
		return checkpoint.ErrFenced
	}
	c.State, c.Reason, c.Done = o.State, o.Reason, o.Done
	for _, e := range o.Expect {
		s.expected[e.Key] = e
	}
	for _, e := range o.Events {
		s.events = append(s.events, e.Type)
	}
	return nil
}

func (s *commands) RetryCommand(_ context.Context, id uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[id-1].State != checkpoint.CommandRejected {
		return errors.New("not rejected")
	}
	s.all[id-1].State = checkpoint.CommandPending
	close(s.accepted)
	s.accepted = make(chan struct{})
	return nil
}

func (s *commands) DropCommands(context.Context, []uint64) (int, error) { panic("not used") }

func (s *commands) Expected(context.Context, string) ([]checkpoint.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []checkpoint.Entry
	for _, e := range s.expected {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b checkpoint.Entry) int { return cmp.Compare(a.Key, b.Key) })
	return out, nil
}

func (s *commands) Unexpect(context.Context, string, []string, int64) error { return nil }

func (s *commands) WaitCommands(ctx context.Context, after uint64) error {
	s.mu.Lock()
	n, ch := uint64(len(s.all)), s.accepted
	s.mu.Unlock()
	if n > after {
		return nil
	}
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
