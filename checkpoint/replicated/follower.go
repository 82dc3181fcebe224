package replicated

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"ndrbridge/checkpoint"
)

// Replica is a state that follows a log: see checkpoint.Replica.
type Replica interface {
	At() checkpoint.Point
	Apply(records [][]byte, at checkpoint.Point) error
	Dumper
}

// Dumper is a state that can be written down: a checkpoint.Replica or a checkpoint.Store.
type Dumper interface {
	Dump(ctx context.Context, pieceBytes int, yield func(record []byte) error) (at checkpoint.Point, err error)
}

// FollowerOptions configures a Follower.
type FollowerOptions struct {
	Clock     clock
	PollEvery time.Duration // how often the stream's leader is asked for the last message; 0: 1 s

	// Snapshots is where the follower makes snapshots, once a record has fit the replica; nil: it
	// makes none.
	Snapshots Snapshots
	Snapshot  SnapshotterOptions
}

// How records are applied: together, but soon.
const (
	groupBytes = 4 << 20
	groupWait  = 50 * time.Millisecond
)

// Follower applies a log to a replica while another process owns the log.
type Follower struct {
	stream      Stream
	replica     Replica
	o           FollowerOptions
	wake        chan struct{} // CatchUp waits for the group
	snapshotter *Snapshotter  // may be nil
	proven      bool          // a record has fit the replica. Of apply

	mu      sync.Mutex
	status  FollowerStatus
	trail   trail         // of the last message that was read
	until   uint64        // the highest offset that a CatchUp waits for
	quiet   time.Duration // the moment since when no message was seen; valid if polled
	polled  bool          // the last poll succeeded
	short   suspicion     // the log ends before Seen
	changed chan struct{} // closed and replaced when Applied changes
	done    chan struct{} // closed when Run has returned
	err     error         // of Run
}

// FollowerStatus is what a follower knows of its log.
type FollowerStatus struct {
	Applied  uint64        // offset of the replica
	Seen     uint64        // sequence number of the last message that was read; Take goes behind it
	Trail    string        // of that message; empty: not known. It is for Options.Trail
	Last     uint64        // sequence number of the last message as the leader reported it, or a later one that was seen
	Owner    string        // that wrote the last record; empty: not known
	Epoch    uint64        // of Owner
	Term     time.Duration // of the lease of Owner; 0: not known
	Released bool          // the last record is a release
	// Snapshot is the newest that is known, and LogBytes how much was read behind it.
	Snapshot Snapshot
	LogBytes int64
	// Quiet is how long no message was seen, while the leader answered: 0 after it did not.
	Quiet time.Duration
}

// NewFollower returns a follower that continues where the replica is. The replica's Apply is
// called by Run alone.
func NewFollower(s Stream, r Replica, o FollowerOptions) *Follower {
	o.PollEvery = cmp.Or(o.PollEvery, time.Second)
	at := r.At()
	f := &Follower{
		stream: s, replica: r, o: o, wake: make(chan struct{}, 1),
		status: FollowerStatus{Applied: at.Offset, Seen: at.Offset}, trail: parseTrail(at.Trail),
		changed: make(chan struct{}), done: make(chan struct{}),
	}
	if o.Snapshots != nil {
		f.snapshotter = NewSnapshotter(s, o.Snapshots, r, o.Snapshot)
	}
	return f
}

// Status returns the status.
func (f *Follower) Status() FollowerStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.status
	if f.polled {
		s.Quiet = max(0, f.o.Clock.Now()-f.quiet)
	}
	if f.trail.id != "" {
		s.Trail = f.trail.String()
	}
	if f.snapshotter != nil {
		s.Snapshot, s.LogBytes = f.snapshotter.Status()
	}
	return s
}

// CatchUp waits until the replica has everything up to an offset. If that is the offset of
// a take that was appended before, this proves that nothing before it is missing.
func (f *Follower) CatchUp(ctx context.Context, until uint64) error {
	for {
		f.mu.Lock()
		f.until = max(f.until, until)
		applied, changed := f.status.Applied, f.changed
		f.mu.Unlock()
		if applied >= until {
			return nil
		}
		select {
		case f.wake <- struct{}{}:
		default:
		}
		select {
		case <-changed:
		case <-f.done:
			if f.Status().Applied >= until {
				return nil
			}
			return fmt.Errorf("catch up with message %d: the follower ended: %w", until, f.err)
		case <-ctx.Done():
			return fmt.Errorf("catch up with message %d, %d is applied: %w", until, applied, context.Cause(ctx))
		}
	}
}

// numbered is a message with its sequence number.
type numbered struct {
	seq uint64
	Message
}

// Run follows the log until ctx ends, whose error it returns then, and waits for everything
// that it has started. It is called once. Errors that end it before:
//
//   - ErrDiverged: the replica has to be restored from a snapshot; see there.
//   - ErrLogLost: the log lacks records of the replica; see Recover.
//   - checkpoint.ErrNewer: the owner is a newer version, whose records are not applied.
//   - errors of the replica's file.
func (f *Follower) Run(ctx context.Context) (err error) {
	defer func() {
		f.err = err
		close(f.done)
	}()
	reader, err := newReader()
	if err != nil {
		return err
	}
	defer reader.close()
	reader.origin = f.trail.origin
	if err := f.verify(ctx, reader); err != nil {
		return err
	}

	ctx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel(nil)
	messages := make(chan numbered)
	running.Go(func() {
		err := f.stream.Follow(ctx, f.replica.At().Offset+1, func(seq uint64, m Message) error {
			select {
			case messages <- numbered{seq, m}:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if errors.Is(err, ErrPurged) {
			err = fmt.Errorf("%w: %w", ErrDiverged, err)
		}
		cancel(err)
	})
	running.Go(func() { f.poll(ctx, cancel) })
	if f.snapshotter != nil {
		running.Go(func() { f.snapshotter.Run(ctx) })
	}
	err = f.apply(ctx, reader, messages)
	if f.o.Snapshots != nil && reader.recovered != nil {
		bounded, stop := context.WithTimeout(ctx, completeTimeout)
		defer stop()
		if failed := complete(bounded, f.stream, f.o.Snapshots, *reader.recovered); failed != nil {
			return failed // the replica may be needed
		}
	}
	return err
}

// setOwner notes who owns the log. The mutex is held.
func (f *Follower) setOwner(r *reader) {
	f.status.Owner, f.status.Epoch, f.status.Term = r.owner, r.epoch, r.term
}

// group are records that are applied together.
type group struct {
	records [][]byte
	points  []checkpoint.Point // behind the records
	bytes   int
	at      checkpoint.Point // behind the last one, or what has no record; zero: there is none
	size    int              // bytes of the messages that the snapshotter does not know of
}

// apply applies messages until ctx ends.
func (f *Follower) apply(ctx context.Context, r *reader, messages <-chan numbered) error {
	var g group
	timer := time.NewTimer(groupWait)
	timer.Stop()
	defer timer.Stop()
	for {
		var err error
		select {
		case m := <-messages:
			first := g.at.Offset == 0
			if err = f.read(r, m, &g); err != nil {
				return errors.Join(err, f.flush(&g))
			}
			switch {
			case g.bytes >= groupBytes || f.awaited(g.at.Offset):
				err = f.flush(&g)
			case first && g.at.Offset != 0:
				timer.Reset(groupWait)
			}
		case <-timer.C:
			err = f.flush(&g)
		case <-f.wake:
			err = f.flush(&g)
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), f.flush(&g))
		}
		if err != nil {
			return err
		}
	}
}

// awaited reports whether a CatchUp waits for an offset.
func (f *Follower) awaited(offset uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return offset > f.status.Applied && offset >= f.until && f.until > f.status.Applied
}

// read adds a message, and the record that it completes to g.
func (f *Follower) read(r *reader, m numbered, g *group) error {
	f.mu.Lock()
	expected := f.status.Seen + 1
	f.mu.Unlock()
	if m.seq != expected {
		return fmt.Errorf("%w: messages %d to %d are lost", ErrDiverged, expected, m.seq-1)
	}
	g.size += len(m.Data)
	e, complete, err := r.read(m.seq, m.Message)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trail = trail{m.ID, r.origin}
	if complete {
		g.at = checkpoint.Point{Offset: e.offset, Trail: f.trail.String()}
	}
	if complete && e.kind == KindRecord {
		g.records, g.points = append(g.records, e.record), append(g.points, g.at)
		g.bytes += len(e.record)
	}
	f.status.Seen = m.seq
	f.status.Last = max(f.status.Last, m.seq)
	f.setOwner(r)
	if complete {
		f.status.Released = e.kind == KindRelease
	}
	f.quiet = f.o.Clock.Now()
	return err
}

// flush applies a group and empties it.
func (f *Follower) flush(g *group) error {
	if g.at.Offset == 0 {
		return nil
	}
	err := f.replica.Apply(g.records, g.at)
	if errors.Is(err, checkpoint.ErrRecord) { // those before the one that does not fit are applied
		for i := range g.records {
			if err = f.replica.Apply(g.records[i:i+1], g.points[i]); err != nil {
				break
			}
			f.setApplied(g.points[i].Offset)
		}
		if errors.Is(err, checkpoint.ErrRecord) {
			err = fmt.Errorf("%w: %w", ErrDiverged, err)
		}
	}
	if err != nil {
		*g = group{}
		return err
	}
	f.proven = f.proven || len(g.records) > 0
	size := g.size
	if f.snapshotter != nil && f.proven {
		f.snapshotter.Note(g.at.Offset, size)
		size = 0
	}
	f.setApplied(g.at.Offset)
	*g = group{records: g.records[:0], points: g.points[:0], size: size}
	return nil
}

// setApplied sets the offset of the replica.
func (f *Follower) setApplied(offset uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.Applied = offset
	close(f.changed)
	f.changed = make(chan struct{})
}

// poll asks the stream's leader for the last message, again and again.
func (f *Follower) poll(ctx context.Context, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(f.o.PollEvery)
	defer ticker.Stop()
	for {
		bounded, stop := context.WithTimeout(ctx, f.o.PollEvery)
		last, err := f.stream.Last(bounded)
		stop()
		if ctx.Err() != nil {
			return
		}
		if err := f.notePoll(last, err); err != nil {
			cancel(err)
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// notePoll notes the leader's answer. The error ends the follower.
func (f *Follower) notePoll(last uint64, err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.o.Clock.Now()
	if err != nil {
		f.polled = false
		return nil
	}
	if !f.polled || last > f.status.Last { // somebody writes, or may have written
		f.quiet = now
	}
	f.polled = true
	if f.short.lasts(last < f.status.Seen, now) {
		return fmt.Errorf("%w: its last message is %d, the replica has %d", ErrLogLost, last, f.status.Seen)
	}
	if last >= f.status.Seen {
		f.status.Last = last
	}
	return nil
}

// verify waits until the log shows that it has, at the replica's offset, the message that the
// replica has, and reads whose it is. Until then nothing is polled: the follower is not quiet.
func (f *Follower) verify(ctx context.Context, r *reader) error {
	at := f.replica.At()
	if at.Offset == 0 {
		return nil
	}
	for absent := 0; ; {
		last, m, err := f.get(ctx, at.Offset)
		switch id := parseTrail(at.Trail).id; {
		case err == nil && id != "" && m.ID != id:
			return fmt.Errorf("%w: message %d is %.100q, not %q", ErrLogLost, at.Offset, m.ID, id)
		case err == nil:
			f.learn(r, m)
			return nil
		case !errors.Is(err, ErrNoMessage): // most servers may have yet to start
		case last >= at.Offset:
			if absent++; absent >= suspicionTimes {
				if err := f.gone(ctx, at.Offset); err != nil {
					return err
				}
			}
		case f.short.lasts(true, f.o.Clock.Now()):
			return fmt.Errorf("%w: its last message is %d, the replica has %d", ErrLogLost, last, at.Offset)
		}
		pause(ctx, f.o.PollEvery)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// gone returns why the log does not have a message that it had: ErrPurged, or it lost it; nil:
// the servers did not answer in time.
func (f *Follower) gone(ctx context.Context, seq uint64) error {
	ctx, cancel := context.WithTimeout(ctx, 2*f.o.PollEvery)
	defer cancel()
	err := f.stream.Follow(ctx, seq, func(next uint64, _ Message) error {
		return fmt.Errorf("it was lost, and the next one is message %d", next)
	})
	if ctx.Err() != nil && !errors.Is(err, ErrPurged) {
		return nil
	}
	return fmt.Errorf("%w: the log does not have message %d any more: %w", ErrDiverged, seq, err)
}

// get reads a message, and the sequence number of the last one if there is no such message.
func (f *Follower) get(ctx context.Context, seq uint64) (last uint64, m Message, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.o.PollEvery)
	defer cancel()
	m, err = f.stream.Get(ctx, seq)
	if errors.Is(err, ErrNoMessage) {
		var failed error
		if last, failed = f.stream.Last(ctx); failed != nil {
			err = failed
		}
	}
	return last, m, err
}

// learn notes whose the message is that the replica has.
func (f *Follower) learn(r *reader, m Message) {
	r.last = m.ID
	id, ok := parseID(m.ID)
	if ok && id.part == id.parts {
		r.owner, r.epoch, r.term = id.owner, id.epoch, m.Term
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trail = f.trail.at(m.ID)
	f.setOwner(r)
	f.status.Released = ok && m.Kind == KindRelease
	f.short = suspicion{}
}
