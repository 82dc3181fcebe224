package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"

	"ndrbridge/checkpoint/internal/boltfile"
	"ndrbridge/transform"
)

// operation is a write that waits for its turn. It belongs to its caller while it is
// queued, and to the writer once the writer has taken it from the queue.
type operation struct {
	ctx context.Context
	change
	noSpace bool       // it was put back to wait for space in the journal
	done    chan error // buffers one result
}

// change is what an operation does, in two steps, so that a refused operation has written
// nothing.
type change struct {
	// check returns why the operation is refused: only its caller gets the error.
	// errNoSpace makes the operation wait. nil: it is never refused.
	check func(*writeRound) error
	// write follows check at once, and makes the change. An error rolls back the whole round.
	write func(*writeRound) error
	// last is true for commits: they come after the others of a round, so that they find the
	// space that deliveries free.
	last bool
}

// errNoSpace means that the journal is full of events that sinks have not committed yet.
// It never leaves the store.
var errNoSpace = errors.New("the journal is full")

// errUnchanged rolls back a round that has written nothing.
var errUnchanged = errors.New("nothing to write")

// errOverwritten means that the file holds something that this store did not write.
var errOverwritten = fmt.Errorf("%w: another program wrote to it while it was open", boltfile.ErrUnreadable)

// errReadOnly is returned if a store that was opened read-only is asked to write.
var errReadOnly = errors.New("the state is open read-only")

// writeRound is one transaction: the queued operations, then some trimming.
type writeRound struct {
	tx         *boltfile.Tx
	events     *boltfile.Table // the journal's
	journal    journal
	configured map[string]bool
	limits     Limits
	now        time.Time
	changed    bool
	queued     bool // something was put into a redelivery queue
	commanded  bool // a command became pending
	corrected  bool // the clock was found to have been set
	logged     bool // the log has the round's record

	appended       [][]transform.Event // by operation
	appendedEvents int
	appendedBytes  int64
}

// do queues a change and waits until it is done.
func (s *Store) do(ctx context.Context, c change) error {
	if s.readOnly {
		return errReadOnly
	}
	op := &operation{ctx: ctx, change: c, done: make(chan error, 1)}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	s.queue = append(s.queue, op)
	s.mu.Unlock()
	s.wakeWriter()

	select {
	case err := <-op.done:
		return err
	case <-s.failed: // the writer may never get to it
		return s.Err()
	case <-ctx.Done():
	}
	s.mu.Lock()
	if i := slices.Index(s.queue, op); i >= 0 {
		s.queue = slices.Delete(s.queue, i, i+1)
		s.waiting = slices.ContainsFunc(s.queue, func(op *operation) bool { return op.noSpace })
		s.mu.Unlock()
		return ctx.Err()
	}
	s.mu.Unlock()
	select {
	case err := <-op.done:
		return err
	case <-s.failed:
		return s.Err()
	}
}

// wakeWriter wakes the writer.
func (s *Store) wakeWriter() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// retentionPause is the shortest time between two checks for events that have outlived
// Limits.Retain while nothing else is written.
const retentionPause = time.Second

// write runs the only goroutine that writes to the database. Close waits for it.
func (s *Store) write() {
	defer close(s.stopped)
	timer := time.NewTimer(retentionPause)
	defer timer.Stop()
	watching := time.NewTicker(watchEvery)
	defer watching.Stop()
	defer s.renewal.Stop()
	for {
		select {
		case <-s.wake:
		case <-timer.C:
		case <-s.renewal.C:
			s.renew()
			continue
		case <-watching.C:
			s.watch()
			if s.clock.step() == 0 {
				continue
			}
		}
		for {
			next, more := s.commitRound()
			if next > 0 {
				timer.Reset(next)
			}
			if s.drained() {
				s.watch()
				return
			}
			if !more {
				break
			}
		}
	}
}

// drained reports whether Close was called and nothing is left to do.
func (s *Store) drained() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed && len(s.queue) == 0
}

// commitRound executes the queued operations and part of the trimming, all in one
// transaction. more reports whether another round has to follow at once; next is when to
// check again for events to trim (0: not before something was written).
func (s *Store) commitRound() (next time.Duration, more bool) {
	s.mu.Lock()
	ops := s.queue
	s.queue = nil
	configured, limits := s.configured, s.limits
	s.mu.Unlock()

	results := make([]error, len(ops))
	r := &writeRound{configured: configured, limits: limits, now: s.clock.now()}
	trimmed, err := s.transact(r, ops, results)
	if err != nil {
		// A check may have relied on writes that were rolled back, so all of them fail.
		err = s.explain(err)
		for i := range results {
			results[i] = err
		}
		trimmed, r.changed = trimming{next: retentionPause}, false
	}
	s.publish(r, err == nil)
	waiting := s.finish(ops, results)
	// A change may have fenced a waiting commit.
	return trimmed.next, trimmed.more || waiting && r.changed
}

// transact executes a round in one transaction, unless there is nothing to write.
func (s *Store) transact(r *writeRound, ops []*operation, results []error) (trimmed trimming, err error) {
	s.watch()
	if err := s.Err(); err != nil {
		return trimmed, err
	}
	s.beforeCommit()
	tx, err := s.begin(true)
	if err != nil {
		return trimmed, s.judge(err)
	}
	number := uint64(tx.ID())
	err = boltfile.Write(tx, func(tx *bolt.Tx) (err error) {
		if s.committed != 0 && number != s.committed+1 {
			return errOverwritten
		}
		trimmed, err = s.execute(tx, r, ops, results)
		return err
	})
	switch {
	case err == errUnchanged:
		s.committed = number - 1
		return trimmed, nil
	case err == nil:
		s.committed, s.closedMark = number, false
		s.commits++
		if r.corrected {
			s.clock.resync()
		}
	default:
		s.committed = 0 // the transaction may have been committed all the same
		err = s.behindLog(r, err)
	}
	return trimmed, s.judge(err)
}

// execute executes a round in tx. It returns errUnchanged if there is nothing to write.
func (s *Store) execute(tx *bolt.Tx, r *writeRound, ops []*operation, results []error) (trimmed trimming, err error) {
	r.tx = boltfile.NewTx(tx, scheme)
	if s.log != nil {
		r.tx.Record(&s.recorder)
	}
	r.events = r.tx.Table(journalBucket)
	if r.journal, err = openJournal(tx); err != nil {
		return trimmed, err
	}
	if r.journal.empty() {
		s.clock.resync() // no event has an age that it could change
	}
	if r.corrected = r.journal.correct(s.clock); r.corrected {
		r.changed = true
		putCorrections(r.tx, r.journal.corrections, r.journal.first)
	}
	if err := r.do(ops, results); err != nil {
		return trimmed, err
	}
	if trimmed, err = r.trim(r.now); err != nil {
		return trimmed, fmt.Errorf("trim the journal: %w", err)
	}
	if !r.changed {
		return trimmed, cmp.Or(r.tx.Err(), errUnchanged)
	}
	if s.closedMark {
		if err := unmark(tx); err != nil {
			return trimmed, err
		}
	}
	if err := r.tx.PutSum(); err != nil || s.log == nil {
		return trimmed, err
	}
	return trimmed, s.appendRecord(r)
}

// do executes the operations and records the errors of refused ones.
func (r *writeRound) do(ops []*operation, results []error) error {
	for _, last := range []bool{false, true} {
		for i, op := range ops {
			if op.last != last {
				continue
			}
			if results[i] = op.ctx.Err(); results[i] == nil && op.check != nil {
				results[i] = op.check(r)
			}
			if results[i] != nil {
				continue
			}
			if err := op.write(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// append adds events to the journal.
func (r *writeRound) append(events []transform.Event) error {
	size, err := r.journal.append(r.events, events, r.now)
	r.appended = append(r.appended, events)
	r.appendedEvents += len(events)
	r.appendedBytes += size
	return err
}

// publish makes the changes of a round visible, before its callers return.
func (s *Store) publish(r *writeRound, committed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if committed {
		s.configured = r.configured
		s.tail.append(r.appended, r.journal.first, r.journal.last)
	} else {
		s.tail.drop() // the events may be in the file or not
	}
	// A needless wake-up if it was rolled back; a commit that failed at its very last step may
	// be in the file all the same.
	if r.appendedEvents > 0 {
		s.appended.send()
	}
	if r.queued {
		s.queued.send()
	}
	if r.commanded {
		s.commanded.send()
	}
}

// finish answers the operations, or puts them back if they wait for space. It reports whether
// any do.
func (s *Store) finish(ops []*operation, results []error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var waiting []*operation
	for i, op := range ops {
		switch {
		case results[i] != errNoSpace:
			op.done <- results[i]
		case op.ctx.Err() != nil:
			op.done <- op.ctx.Err()
		case s.closed:
			op.done <- ErrClosed
		default:
			op.noSpace = true
			waiting = append(waiting, op)
		}
	}
	s.queue = append(waiting, s.queue...)
	s.waiting = len(waiting) > 0
	return s.waiting
}

// explain adds what can be done about a failed transaction to its error.
func (s *Store) explain(err error) error {
	if s.log == nil && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)) {
		return fmt.Errorf("the disk of %s is full; nothing is lost, and writing resumes as soon as there is space: %w", s.path, err)
	}
	if errors.Is(err, ErrDamaged) || s.Err() != nil {
		return err
	}
	return fmt.Errorf("write to %s: %w", s.path, err)
}
