// Package replicatedtest is a stream of replicated logs in memory whose faults a test
// chooses. It runs in bubbles of testing/synctest too.
package replicatedtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"ndrbridge/checkpoint/replicated"
)

// Faults are what the servers and the network do. Chances are from 0 to 1, of each message
// and of each answer. The zero value is a network without faults and delays.
type Faults struct {
	LoseCopies  float64       // a message does not arrive
	LoseAnswers float64       // a message arrives, its answer does not
	Repeat      float64       // a message, or its answer, arrives again
	Delay       time.Duration // the longest time under way, of each copy and answer by itself
	LateCopies  float64       // a copy arrives once more, after up to 20 times Delay
	FailReads   float64       // Get and Last return an error
	// Old is how long after ChangeLeader Get and Last may be answered by the old leader, with
	// the messages that it had then.
	Old time.Duration
	// MaxData is that of the streams; 0: 1 MiB.
	MaxData int
	// IgnoreExpectations is sabotage: a message is stored whatever is last.
	IgnoreExpectations bool
	// PurgeBeyond is sabotage: so many more messages are purged.
	PurgeBeyond uint64
}

// Servers hold the logs of all generations for many members. Its methods are safe for
// concurrent use.
type Servers struct {
	mu        sync.Mutex
	random    *rand.Rand
	faults    Faults
	streams   map[uint64]*stream
	snapshots map[uint64]*snapshots
	cut       map[string]bool
	changed   chan struct{} // closed and replaced whenever something changes
}

// New returns servers that make the same choices for the same seed, as far as the caller's
// goroutines do.
func New(seed uint64, f Faults) *Servers {
	return &Servers{
		random: rand.New(rand.NewPCG(seed, seed)), faults: f, streams: map[uint64]*stream{}, snapshots: map[uint64]*snapshots{}, cut: map[string]bool{},
		changed: make(chan struct{}),
	}
}

// Stored is a message as the servers have it.
type Stored struct {
	Seq uint64
	replicated.Message
}

// stream is that of one generation. Its mutex is that of Servers.
type stream struct {
	messages []Stored // those that are left, in their order
	last     uint64
	leaderAt time.Time // before it there is no leader
	oldUntil time.Time
	oldLast  uint64 // what the old leader has
}

// SetFaults replaces the faults from now on.
func (s *Servers) SetFaults(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

// Cut separates a member from the servers, or connects it again. What is on its way to them
// arrives, what is on its way back does not.
func (s *Servers) Cut(member string, cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut[member] = cut
	s.wake()
}

// ChangeLeader makes a generation's stream refuse messages and reads for a while. After that, for
// Faults.Old, some reads see what it has now.
func (s *Servers) ChangeLeader(generation uint64, without time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stream(generation)
	st.leaderAt = time.Now().Add(without)
	st.oldUntil, st.oldLast = st.leaderAt.Add(s.faults.Old), st.last
}

// Forget makes a generation's stream forget all messages after message last, as servers do that
// acknowledge what is not on their disks and lose power.
func (s *Servers) Forget(generation uint64, last uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stream(generation)
	st.last = min(st.last, last)
	st.messages = slices.Clone(st.messages[:st.index(last+1)])
	s.wake()
}

// Lose makes a generation's stream lose one message.
func (s *Servers) Lose(generation uint64, seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stream(generation)
	st.messages = slices.DeleteFunc(slices.Clone(st.messages), func(m Stored) bool { return m.Seq == seq })
}

// Messages returns what a generation's stream has.
func (s *Servers) Messages(generation uint64) []Stored {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.stream(generation).messages)
}

// Stream returns a generation's stream as a member reaches it.
func (s *Servers) Stream(member string, generation uint64) replicated.Stream {
	return &client{servers: s, member: member, generation: generation}
}

// stream returns that of a generation. The mutex is held.
func (s *Servers) stream(generation uint64) *stream {
	if s.streams[generation] == nil {
		s.streams[generation] = &stream{}
	}
	return s.streams[generation]
}

// wake wakes all that wait for a change. The mutex is held.
func (s *Servers) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// happens reports whether something of a chance happens. The mutex is held.
func (s *Servers) happens(chance float64) bool { return chance > 0 && s.random.Float64() < chance }

// underWay returns how long a copy or an answer takes. The mutex is held.
func (s *Servers) underWay(most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	return time.Duration(s.random.Int64N(int64(most)))
}

// errNoLeader is the answer of a stream without a leader.
var errNoLeader = errors.New("no responders")

// store stores a message if its expectation holds. The mutex is held.
func (s *Servers) store(generation uint64, after uint64, m replicated.Message) (uint64, error) {
	st := s.stream(generation)
	if time.Now().Before(st.leaderAt) {
		return 0, errNoLeader
	}
	if st.last != after && !s.faults.IgnoreExpectations {
		return 0, &replicated.WrongLastError{Last: st.last}
	}
	st.last++
	st.messages = append(st.messages, Stored{st.last, m})
	s.wake()
	return st.last, nil
}

// client is a member's connection to a stream.
type client struct {
	servers    *Servers
	member     string
	generation uint64
}

// MaxData implements replicated.Stream.
func (c *client) MaxData() int {
	c.servers.mu.Lock()
	defer c.servers.mu.Unlock()
	if n := c.servers.faults.MaxData; n > 0 {
		return n
	}
	return 1 << 20
}

// Publish implements replicated.Stream.
func (c *client) Publish(after uint64, m replicated.Message, answer func(uint64, error)) error {
	s := c.servers
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut[c.member] {
		return errors.New("not connected")
	}
	m.Data = bytes.Clone(m.Data)
	f := s.faults
	var delays []time.Duration
	if !s.happens(f.LoseCopies) {
		delays = append(delays, s.underWay(f.Delay))
	}
	if s.happens(f.Repeat) {
		delays = append(delays, s.underWay(f.Delay))
	}
	if s.happens(f.LateCopies) {
		delays = append(delays, s.underWay(20*f.Delay))
	}
	for _, d := range delays {
		time.AfterFunc(d, func() { c.arrive(after, m, answer) })
	}
	return nil
}

// arrive is what the servers do with a copy of a message.
func (c *client) arrive(after uint64, m replicated.Message, answer func(uint64, error)) {
	s := c.servers
	s.mu.Lock()
	defer s.mu.Unlock()
	seq, err := s.store(c.generation, after, m)
	answers := 1
	if s.happens(s.faults.LoseAnswers) {
		answers = 0
	}
	if s.happens(s.faults.Repeat) {
		answers++
	}
	for range answers {
		time.AfterFunc(s.underWay(s.faults.Delay), func() {
			s.mu.Lock()
			cut := s.cut[c.member]
			s.mu.Unlock()
			if !cut {
				answer(seq, err)
			}
		})
	}
}

// read calls f with what a leader has, up to its last message, unless the read fails.
func (c *client) read(ctx context.Context, f func(st *stream, last uint64) error) error {
	s := c.servers
	s.mu.Lock()
	delay, failing := s.underWay(2*s.faults.Delay), s.happens(s.faults.FailReads)
	s.mu.Unlock()
	if err := sleep(ctx, delay); err != nil {
		return err
	}
	s.mu.Lock()
	cut, st := s.cut[c.member], s.stream(c.generation)
	if cut {
		s.mu.Unlock()
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
		return errors.New("no answer")
	}
	defer s.mu.Unlock()
	now, last := time.Now(), st.last
	if failing || now.Before(st.leaderAt) {
		return errNoLeader
	}
	if now.Before(st.oldUntil) && s.happens(0.5) {
		last = min(last, st.oldLast)
	}
	return f(st, last)
}

// Get implements replicated.Stream.
func (c *client) Get(ctx context.Context, seq uint64) (m replicated.Message, err error) {
	err = c.read(ctx, func(st *stream, last uint64) error {
		i := st.index(seq)
		if seq > last || i == len(st.messages) || st.messages[i].Seq != seq {
			return fmt.Errorf("message %d: %w", seq, replicated.ErrNoMessage)
		}
		m = st.messages[i].Message
		return nil
	})
	return m, err
}

// Last implements replicated.Stream.
func (c *client) Last(ctx context.Context) (last uint64, err error) {
	err = c.read(ctx, func(_ *stream, l uint64) error { last = l; return nil })
	return last, err
}

// Purge implements replicated.Stream.
func (c *client) Purge(ctx context.Context, before uint64) error {
	return c.read(ctx, func(st *stream, _ uint64) error {
		st.messages = slices.Clone(st.messages[st.index(before+c.servers.faults.PurgeBeyond):])
		return nil
	})
}

// index returns where the first message is whose sequence number is at least seq.
func (st *stream) index(seq uint64) int {
	i, _ := slices.BinarySearchFunc(st.messages, seq, func(m Stored, seq uint64) int { return cmp.Compare(m.Seq, seq) })
	return i
}

// first returns the sequence number of the first message, or that which the next one will have.
func (st *stream) first() uint64 {
	if len(st.messages) > 0 {
		return st.messages[0].Seq
	}
	return st.last + 1
}

// Follow implements replicated.Stream.
func (c *client) Follow(ctx context.Context, from uint64, yield func(uint64, replicated.Message) error) error {
	s := c.servers
	for begun := false; ; {
		s.mu.Lock()
		changed, delay, st := s.changed, s.underWay(s.faults.Delay), s.stream(c.generation)
		var next Stored
		if i := st.index(from); i < len(st.messages) && !s.cut[c.member] {
			next = st.messages[i]
		}
		purged := !begun && !s.cut[c.member] && from < st.first()
		begun = begun || !s.cut[c.member]
		s.mu.Unlock()
		switch {
		case purged:
			return fmt.Errorf("message %d: %w", from, replicated.ErrPurged)
		case next.Seq != 0:
			if err := sleep(ctx, delay); err != nil {
				return err
			}
			if err := yield(next.Seq, next.Message); err != nil {
				return err
			}
			from = next.Seq + 1
		default:
			select {
			case <-changed:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
