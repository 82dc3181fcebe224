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
	Clock clock
	// Identity is that of the log. The zero value is that of the replica, or any.
	Identity Identity

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
	snapshotter *Snapshotter // may be nil
	proven      bool         // a record has fit the replica. Of apply

	mu      sync.Mutex
	status  FollowerStatus
	begun   bool          // the log has the message that the replica has
	trail   trail         // of the last message that was read
	quiet   time.Duration // the moment since when no message was seen; valid if polled
	polled  bool          // the last poll succeeded, or a message came since
	pollAt  time.Duration // when the leader is asked for the last message
	pollBy  time.Duration // pollAt is no later, whatever comes
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
	About    Owner         // the newest that Owner said of itself
	Epoch    uint64        // of Owner
	Term     time.Duration // of the lease of Owner; 0: not known
	Released bool          // the last record is a release
	Empty    bool          // the leader reported that the log has no message
	// Snapshot is the newest that is known, and LogBytes how much was read behind it.
	Snapshot Snapshot
	LogBytes int64
	// Quiet is how long no message was seen, while the leader answered: 0 after it did not, and never
	// if it did.
	Quiet time.Duration
}

// NewFollower returns a follower that continues where the replica is. The replica's Apply is
// called by Run alone.
func NewFollower(s Stream, r Replica, o FollowerOptions) *Follower {
	at := r.At()
	f := &Follower{
		stream: s, replica: r, o: o, begun: at.Offset == 0,
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
	if f.polled && f.begun {
		s.Quiet = max(1, f.o.Clock.Now()-f.quiet)
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
		applied, changed := f.status.Applied, f.changed
		f.mu.Unlock()
		if applied >= until {
			return nil
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
//   - ErrLogLost: the log lacks records of the replica.
//   - ErrMoved: the log was retired, and the replica has all of it.
//   - checkpoint.ErrNewer: the owner is a newer version, whose records are not applied.
//   - errors of the replica's file.
func (f *Follower) Run(ctx context.Context) (err error) {
	defer func() {
		f.err = err
		close(f.done)
	}()
	reader := &reader{log: cmp.Or(f.trail.Identity, f.o.Identity)}
	if err := f.checkSnapshot(ctx); err != nil {
		return err
	}

	ctx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel(nil)
	messages := make(chan numbered)
	running.Go(func() {
		err := f.stream.Follow(ctx, max(f.replica.At().Offset, 1), func(seq uint64, m Message) error {
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
	return f.apply(ctx, reader, messages)
}

// setOwner notes who owns the log. The mutex is held.
func (f *Follower) setOwner(r *reader) {
	f.status.Owner, f.status.About, f.status.Epoch, f.status.Term = r.owner, r.description, r.epoch, r.term
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
			case g.bytes >= groupBytes:
				err = f.flush(&g)
			case first && g.at.Offset != 0:
				timer.Reset(groupWait)
			}
		case <-timer.C:
			err = f.flush(&g)
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), f.flush(&g))
		}
		if err != nil {
			return err
		}
	}
}

// read adds a message, and the record that it completes to g.
func (f *Follower) read(r *reader, m numbered, g *group) error {
	if !f.begun {
		return f.begin(r, m)
	}
	if m.seq != f.status.Seen+1 {
		return fmt.Errorf("%w: messages %d to %d are lost", ErrDiverged, f.status.Seen+1, m.seq-1)
	}
	g.size += len(m.Data)
	e, complete, err := r.read(m.seq, m.Message)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trail = trail{m.ID, r.log}
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
	f.quiet, f.polled = f.o.Clock.Now(), true
	f.pollAt = min(f.quiet+f.pollEvery(), f.pollBy)
	return err
}

// begin checks that the first message is the one that the replica has, and reads whose it is.
func (f *Follower) begin(r *reader, m numbered) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch id, ok := parseID(m.ID); {
	case m.seq != f.status.Seen:
		return fmt.Errorf("%w: message %d is lost, which it has", ErrDiverged, f.status.Seen)
	case f.trail.id != "" && m.ID != f.trail.id:
		return fmt.Errorf("%w: message %d is %.100q, not %q", ErrLogLost, m.seq, m.ID, f.trail.id)
	case ok && id.part == id.parts:
		r.owner, r.epoch, r.term = id.owner, id.epoch, m.Term
		f.status.Released = m.Kind == KindRelease
	}
	if t, ok := readTaken(m.Message); ok {
		r.description = t.Owner
	} else if m.Kind == KindRenew {
		r.describe(m.Data)
	}
	r.last, f.trail.id = m.ID, m.ID
	f.setOwner(r)
	f.begun, f.quiet = true, f.o.Clock.Now()
	return nil
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

// Polls ask the stream's leader for the last message.
const (
	pollTimeout = 2 * time.Second
	pollRetry   = time.Second      // after a poll that failed
	pollAnyway  = 10 * time.Second // even if messages come: it shows how far behind they are
)

// pollEvery returns how long after a message or a poll the leader is asked. An owner renews its
// lease more often. The mutex is held.
func (f *Follower) pollEvery() time.Duration { return cmp.Or(f.status.Term/2, pollRetry) }

// poll asks the stream's leader for the last message, more rarely while messages come.
func (f *Follower) poll(ctx context.Context, cancel context.CancelCauseFunc) {
	for ctx.Err() == nil {
		f.mu.Lock()
		wait := f.pollAt - f.o.Clock.Now()
		f.mu.Unlock()
		if wait > 0 {
			pause(ctx, wait)
			continue
		}
		bounded, stop := context.WithTimeout(ctx, pollTimeout)
		last, err := f.stream.Last(bounded)
		stop()
		if ctx.Err() != nil {
			return
		}
		if err := f.notePoll(last, err); err != nil {
			cancel(err)
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
		f.polled, f.pollAt, f.pollBy = false, now+pollRetry, now+pollRetry
		return nil
	}
	f.pollAt, f.pollBy = now+f.pollEvery(), now+pollAnyway
	if !f.polled || last > f.status.Last { // somebody writes, or may have written
		f.quiet = now
	}
	f.polled, f.status.Empty = true, last == 0
	if f.short.lasts(last < f.status.Seen, now) {
		return fmt.Errorf("%w: its last message is %d, the replica has %d", ErrLogLost, last, f.status.Seen)
	}
	if f.begun && last >= f.status.Seen {
		f.status.Last = last
	}
	return nil
}

// checkSnapshot waits until the log shows that it has the message of the newest snapshot. If it lost
// its end, the replica may be behind that, or be the snapshot. Until then nothing is polled: the
// follower is not quiet.
func (f *Follower) checkSnapshot(ctx context.Context) error {
	snapshot := f.lastSnapshot(ctx)
	var short suspicion
	for ctx.Err() == nil && snapshot.Object != "" {
		m, last, err := f.get(ctx, snapshot.Offset)
		id := parseTrail(snapshot.Trail).id
		switch {
		case err == nil && id != "" && m.ID != id:
			return fmt.Errorf("%w: message %d is %.100q, and was %q when a snapshot was made", ErrLogLost, snapshot.Offset, m.ID, id)
		case err == nil:
			return nil
		case !errors.Is(err, ErrNoMessage): // most servers may have yet to start
		case last >= snapshot.Offset:
			return nil // there is a newer snapshot, and the message was purged
		case short.lasts(true, f.o.Clock.Now()):
			return fmt.Errorf("%w: its last message is %d, and there is a snapshot of message %d", ErrLogLost, last, snapshot.Offset)
		}
		pause(ctx, pollRetry)
	}
	return ctx.Err()
}

// lastSnapshot returns the newest snapshot, if there is one and the pointer can be read: a damaged
// one does not keep the cluster from going on.
func (f *Follower) lastSnapshot(ctx context.Context) Snapshot {
	for tries := 0; f.o.Snapshots != nil && tries < suspicionTimes && ctx.Err() == nil; tries++ {
		p, _, err := f.o.Snapshots.Pointer(ctx)
		if err == nil {
			return p.Last
		}
		pause(ctx, pollRetry)
	}
	return Snapshot{}
}

// get reads a message, and the sequence number of the last one if there is no such message.
func (f *Follower) get(ctx context.Context, seq uint64) (m Message, last uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	m, err = f.stream.Get(ctx, seq)
	if errors.Is(err, ErrNoMessage) {
		var failed error
		if last, failed = f.stream.Last(ctx); failed != nil {
			err = failed
		}
	}
	return m, last, err
}
