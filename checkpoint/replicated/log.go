package replicated

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/s2"

	"ndrbridge/checkpoint"
)

// clock is the time of this machine: see lease.Clock.
type clock interface {
	Now() time.Duration // never goes back, is never set
}

// lease is extended by every record that was stored: see lease.Lease.
type lease interface {
	// Renew makes the lease last its term from begun on, a moment of the Clock.
	Renew(begun time.Duration)
}

// Options configures the owner of a log.
type Options struct {
	// Context ends appends that wait for the servers; their result remains unknown. It must not
	// be nil.
	Context context.Context
	Owner   string // of printable ASCII without spaces; unique among all owners there ever are
	// Attempt counts the calls of Take by Owner. A take of an earlier one, which may be stored
	// although that call failed, is not mistaken for its own: the lease would begin later than the
	// others count it from.
	Attempt uint64
	// Epoch is that of the owner before (FollowerStatus.Epoch): the new owner's is higher.
	Epoch uint64
	// Trail is that of the message after which the log is taken, as the state knows it
	// (FollowerStatus.Trail); empty: whatever message it is.
	Trail string
	// Identity is that of the log. Only the first take needs it: later ones know it by Trail.
	Identity Identity
	// Describe returns what each take and renewal says of the owner. It may be nil.
	Describe func() Owner
	Lease    lease         // may be nil
	Clock    clock         // the lease's
	Term     time.Duration // the lease's, which each message carries; 0: 6 s

	Metrics Metrics
}

// Metrics are called by the goroutine that appends; each may be nil.
type Metrics struct {
	Appended func(took time.Duration, bytes int) // a record was stored, of so many compressed bytes
	Resent   func(messages int, why error)       // they were not acknowledged in time, or refused for why
}

const (
	defaultTerm = 6 * time.Second

	ackWait     = 2 * time.Second // for an answer, before a message is sent again
	maxPart     = 512 << 10       // bytes of a message, or of a chunk of a snapshot
	maxInFlight = 8               // messages that are not answered yet
)

// Log is a log as its owner writes it. It implements checkpoint.Log: its methods are
// called from one goroutine, but for Offset.
type Log struct {
	stream Stream
	o      Options

	last     atomic.Uint64 // sequence number of the last message
	trail    trail         // its trail; without an ID if there is no message, or it is not known
	storedAt time.Duration // when it was stored at the latest

	epoch  uint64
	number uint64 // of the last record
	ended  error  // why nothing more is appended
}

// Take makes its caller the owner of the log, if after is still the sequence number of the
// last message. From then on everything that an earlier owner appends is refused. The offset
// of the returned Log is that of the take: before anything is appended, the state has to be
// brought to it.
//
// checkpoint.ErrNotOwner: other messages came first. ErrMoved: nobody owns the log any more.
// ErrLogLost: the log ends before after, or has another message there than Options.Trail names,
// because it lost its end and others appended to it since.
// After any other error it is not known whether the take was stored; if it was, the log has
// an owner that does nothing. Take ends with ctx, everything later with Options.Context.
func Take(ctx context.Context, s Stream, after uint64, o Options) (*Log, error) {
	l, err := take(ctx, s, after, o, 0)
	if err != nil {
		return nil, fmt.Errorf("take the log after message %d: %w", after, err)
	}
	return l, nil
}

// Retire takes a log after message last, as Take does, and ends it: the cluster goes on in the
// generation next. The owner is fenced, and a follower ends with ErrMoved once it has applied all
// messages up to last. It returns nil too if the log was retired for next before.
func Retire(ctx context.Context, s Stream, o Options, last, next uint64) error {
	if m, err := s.Get(ctx, last); err == nil {
		if t, ok := readTaken(m); ok && t.Moved == next {
			return nil
		}
	}
	if _, err := take(ctx, s, last, o, next); err != nil {
		return fmt.Errorf("retire the log after message %d: %w", last, err)
	}
	return nil
}

// take is Take, or Retire if moved is not 0.
func take(ctx context.Context, s Stream, after uint64, o Options, moved uint64) (*Log, error) {
	o.Term = cmp.Or(o.Term, defaultTerm)
	l := &Log{stream: s, o: o, trail: parseTrail(o.Trail), storedAt: o.Clock.Now(), epoch: o.Epoch, number: o.Attempt << 32}
	l.last.Store(after)
	l.trail.Identity = cmp.Or(l.trail.Identity, o.Identity)
	if err := l.lookBack(ctx); err != nil {
		return nil, err
	}
	content := taken{
		Format: checkpoint.RecordFormat, Layout: checkpoint.Layout, After: l.trail.id,
		Cluster: l.trail.Cluster, Generation: l.trail.Generation, Moved: moved,
	}
	if o.Describe != nil {
		content.Owner = o.Describe()
	}
	if _, err := l.append(ctx, KindTake, encode(content)); err != nil {
		return nil, err
	}
	return l, nil
}

// lookBack checks the message after which the log is taken, and sets an epoch above its and
// that of Options.
func (l *Log) lookBack(ctx context.Context) error {
	defer func() { l.epoch++ }()
	last := l.last.Load()
	if last == 0 {
		return nil
	}
	m, err := l.get(ctx, last)
	if errors.Is(err, ErrNoMessage) { // purged, or the log is shorter: the take finds out
		return nil
	}
	if err != nil {
		return err
	}
	if l.trail.id != "" && l.trail.id != m.ID {
		return fmt.Errorf("%w: message %d is %.100q, not %q", ErrLogLost, last, m.ID, l.trail.id)
	}
	if t, ok := readTaken(m); ok && t.Moved != 0 {
		return movedTo(t.Moved)
	}
	l.trail.id = m.ID
	if id, ok := parseID(m.ID); ok {
		l.epoch = max(l.epoch, id.epoch)
	}
	return nil
}

// get reads a message, and waits no longer for it than for an acknowledgement.
func (l *Log) get(ctx context.Context, seq uint64) (Message, error) {
	ctx, cancel := context.WithTimeout(ctx, ackWait)
	defer cancel()
	return l.stream.Get(ctx, seq)
}

// Append implements checkpoint.Log. Before it has returned nil the record is in the log, or
// part of it is, which readers ignore, or it is not.
func (l *Log) Append(record []byte) (checkpoint.Point, error) {
	if len(record) == 0 {
		return l.append(l.o.Context, KindRenew, l.description())
	}
	return l.append(l.o.Context, KindRecord, s2.Encode(nil, record))
}

// description returns the content of a renewal.
func (l *Log) description() []byte {
	if l.o.Describe == nil {
		return nil
	}
	return encode(l.o.Describe())
}

var errReleased = errors.New("the log was released")

// Release appends the owner's last record, so that another process need not wait before it
// takes the log. Nothing may be appended after it.
func (l *Log) Release(ctx context.Context) error {
	if _, err := l.append(ctx, KindRelease, nil); err != nil {
		return fmt.Errorf("release the log: %w", err)
	}
	l.ended = errReleased
	return nil
}

// Offset returns the sequence number of the last message that was stored.
func (l *Log) Offset() uint64 { return l.last.Load() }

// at returns the point behind the last message that was stored.
func (l *Log) at() checkpoint.Point {
	return checkpoint.Point{Offset: l.last.Load(), Trail: l.trail.String()}
}

// append stores data as a record.
func (l *Log) append(ctx context.Context, kind string, data []byte) (checkpoint.Point, error) {
	if l.ended != nil {
		return checkpoint.Point{}, l.ended
	}
	l.number++
	begun := l.o.Clock.Now()
	a := newAppender(l, kind, data)
	if err := a.run(ctx); err != nil {
		l.ended = err
		return checkpoint.Point{}, err
	}
	l.last.Store(a.base + uint64(len(a.parts)))
	l.trail.id, l.storedAt = a.parts[len(a.parts)-1].ID, l.o.Clock.Now()
	if l.o.Lease != nil {
		l.o.Lease.Renew(begun)
	}
	if l.o.Metrics.Appended != nil {
		l.o.Metrics.Appended(l.o.Clock.Now()-begun, len(data))
	}
	return l.at(), nil
}
