// Package checkpoint keeps the bridge's durable state: the position of every source and
// what it remembers, the event journal, the sinks' cursors, the dead letters, and the
// redelivery queues.
//
// At-least-once delivery rests on these guarantees:
//
//   - A position is never ahead of the events that it covers: both are
//     committed in one transaction.
//   - A cursor is never ahead of what its sink acknowledged or its dead letters
//     hold: both are committed in one transaction.
//   - An event is not trimmed from the journal before every configured sink has
//     committed it. Events that a sink skips are counted and reported by an event
//     of their own, in the same transaction.
//   - An event stays in a redelivery queue until it is acknowledged or becomes a
//     dead letter again: it moves from one to the other in one transaction. Events
//     of a replayed range that a full journal trims are counted.
//   - A write that has returned nil survives a crash of the machine.
package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"ndrbridge/transform"
)

// Errors that callers act on. They are returned wrapped.
var (
	// ErrFenced is returned if the position or cursor in the store is not the one that the
	// caller expects, because another caller moved it. Nothing was written. The caller must
	// read the state again before it continues.
	ErrFenced = errors.New("the state was moved by somebody else")
	// ErrClosed is returned if the store is closed.
	ErrClosed = errors.New("the state is closed")
	// ErrLocked is returned if another process has the state open.
	ErrLocked = errors.New("the state is in use by another process")
	// ErrNewer is returned if a newer version wrote the state.
	ErrNewer = errors.New("the state was written by a newer version")
	// ErrDamaged is returned if the state cannot be read. Nothing was changed.
	ErrDamaged = errors.New("the state is damaged")
	// ErrDeadFull is returned if a sink's dead letters have no space for more (see Limits).
	// Nothing was written.
	ErrDeadFull = errors.New("the dead letters are full")
	// ErrFull is returned if the journal has no space (see Limits) and the caller does not
	// wait for it. Nothing was written.
	ErrFull = errors.New("the journal is full of events that a sink has yet to take")
)

// Source identifies a stream of an appliance. Each source has one position.
type Source struct {
	Appliance string // the appliance's name
	Stream    string // detections, audit, or records/<name of the query>
}

// String returns appliance/stream.
func (s Source) String() string { return s.Appliance + "/" + s.Stream }

// Commit is what a source writes in one transaction: events, and the position that covers
// them.
type Commit struct {
	Source Source
	// Expect is the position that the caller believes to be current, nil if there is none yet.
	Expect []byte
	// Position is the new position, in the source's own encoding. Never empty.
	Position []byte
	// Events are appended to the journal in this order.
	Events []transform.Event
	// Remember sets remembered entries, by key.
	Remember []Entry
	// ForgetBefore lets the store forget entries whose At is lower, a bounded number with each
	// commit. 0 forgets nothing.
	ForgetBefore int64
	// Dead holds objects that could not be made into events. Older dead letters give way to
	// them (see Limits).
	Dead []DeadLetter
	// NoWait makes the commit fail with ErrFull if the journal has no space, instead of
	// waiting for space.
	NoWait bool
	// Reserve lets the events use half of the space that the journal reserves for the bridge's
	// own events (see Space.HasSpace). It is meant for small events that others wait for. The
	// other half is left to Commands.Finish.
	Reserve bool
}

// Entry is what a source remembers about one object between polls. The source owns the
// encoding of Value.
type Entry struct {
	Key   string
	Value []byte // never empty
	At    int64  // compared with ForgetBefore, >= 0
}

// DeadLetter is an object that did not become an event, or an event that a sink's target
// rejected.
type DeadLetter struct {
	// Key is unique within the owner; a dead letter with the key of an older one
	// replaces it.
	Key    string    `json:"key"`
	Class  string    `json:"class"`  // one of a closed set of words
	Reason string    `json:"reason"` // for a person; never holds a secret
	Time   time.Time `json:"time"`   // when the bridge gave it up
	Body   []byte    `json:"body"`   // the event in structured form, or the object as received
}

// Sources is the part of a store that sources use. Its methods are safe for concurrent
// use. An error other than ErrFenced and ErrClosed (such as a full disk) may be temporary:
// the caller retries.
type Sources interface {
	// Position returns the last committed position, nil if there is none.
	Position(ctx context.Context, source Source) ([]byte, error)
	// Recall returns the value remembered for each key, in the order of keys; nil for a key
	// that is unknown or forgotten. The caller owns the result.
	Recall(ctx context.Context, source Source, keys []string) ([][]byte, error)
	// Known returns remembered entries in the order of At and Key, starting after the At and
	// Key of after, at most limit entries. The caller owns the result.
	Known(ctx context.Context, source Source, after Entry, limit int) ([]Entry, error)
	// Commit writes c, all of it or nothing. While the journal has no space (see Limits), it
	// waits until ctx is done, unless c.NoWait is set; a commit without events needs no space.
	// If even the fastest sink is far behind, Commit waits for it briefly, while that sink
	// delivers, so that the backlog does not outrun it. It returns ErrFenced if the position
	// is not c.Expect.
	Commit(ctx context.Context, c Commit) error
}

// Record is an event in the journal.
type Record struct {
	Seq   uint64 // increases by one with every event, from 1
	Event transform.Event
}

// Batch bounds what Read returns. If there is an event at all, at least one is returned,
// however large it is.
type Batch struct {
	MaxEvents int // 0: no bound
	MaxBytes  int // of structured events; 0: no bound
}

// Delivery is what a sink has done with the events after its cursor.
type Delivery struct {
	Sink string
	// Expect is the cursor that the caller believes to be current.
	Expect uint64
	// Cursor is the sequence number of the last event that is acknowledged or
	// among Dead. Cursor >= Expect.
	Cursor uint64
	Dead   []DeadLetter
}

// Start sets where a sink that the state has never seen begins.
type Start struct {
	Now   bool      // with the first event appended from now on
	Since time.Time // with the first event recorded at or after this; zero: with everything that the journal holds
}

// Journal is the part of a store that sinks use. Its methods are safe for
// concurrent use.
type Journal interface {
	// Configure sets which sinks there are, before any of them reads. A sink that the state
	// has never seen gets a cursor at its Start. Only these sinks hold the journal back; the
	// cursors of others are kept, and returned by Stats. Before Configure is called, nothing
	// is trimmed, and every event in the journal counts as not yet committed.
	Configure(ctx context.Context, sinks map[string]Start) error
	// Cursor returns the sequence number of the last event that the sink has committed. It
	// returns an error if the sink was never configured.
	Cursor(ctx context.Context, sink string) (uint64, error)
	// Read returns events after a sequence number, without waiting. Events after a cursor that
	// were trimmed while the sink was not configured are left out. The caller owns the result.
	Read(ctx context.Context, after uint64, max Batch) ([]Record, error)
	// Wait blocks until the journal holds an event after the sequence number, and returns nil;
	// it returns ctx's error if ctx is done first, or ErrClosed.
	Wait(ctx context.Context, after uint64) error
	// CommitDelivery moves a cursor and writes the dead letters with it. It returns ErrFenced
	// if the cursor is not s.Expect, ErrDeadFull if the dead letters have no space, and an
	// error if s.Cursor is beyond the journal.
	CommitDelivery(ctx context.Context, s Delivery) error
	// Dead returns an owner's dead letters in the order of their keys, after a key ("": from
	// the first), at most limit.
	Dead(ctx context.Context, o Owner, after string, limit int) ([]DeadLetter, error)
	// Stats returns the size of the state. Its cost does not grow with the journal.
	Stats(ctx context.Context) (Stats, error)
}

// Skip is what a sink's lag policy does: it leaves events after the sink's cursor
// undelivered, and reports that by an event.
type Skip struct {
	Sink string
	// Expect is the cursor that the caller believes to be current.
	Expect uint64
	// Cursor is the sequence number of the last skipped event. Events that were
	// already trimmed count as skipped too. Cursor > Expect.
	Cursor uint64
	// Event reports what was skipped. It is appended to the journal for every
	// sink, this one included.
	Event transform.Event
}

// Budget bounds the events that a sink has not committed yet.
type Budget struct {
	Since    time.Time // events recorded before it are too old; zero: no bound
	MaxBytes int64     // of events; 0: no bound
}

// Excess is what a sink has not committed yet beyond a Budget. Nothing is beyond it if
// Cursor equals Expect.
type Excess struct {
	Expect uint64 // the cursor
	Cursor uint64 // the sequence number of the last event beyond the budget
	Events uint64 // includes events that were already trimmed
	Bytes  int64  // of the events that were not trimmed
	// Oldest and Newest bound from above when the first and the last event that were
	// not trimmed were recorded; zero if all were trimmed.
	Oldest, Newest time.Time
}

// Skips is the part of a store that lag policies use. It is safe for concurrent use.
type Skips interface {
	// Over returns what a sink would have to skip to be within a budget. Its cost does not
	// grow with the journal.
	Over(ctx context.Context, sink string, b Budget) (Excess, error)
	// Skip moves the cursor, counts what was skipped, and appends the event, in one
	// transaction. It needs no space in the journal. It returns ErrFenced if the cursor is not
	// s.Expect, and an error if s.Cursor is beyond the journal.
	Skip(ctx context.Context, s Skip) error
}

// RedeliveryOffset is an offset in a sink's redelivery queue. Callers only compare offsets
// and pass them back.
type RedeliveryOffset struct {
	// Item increases with every item queued, from 1. Queues never share a number, even if one
	// sink has the name that another had.
	Item uint64
	Seq  uint64 // the event's sequence number within a replayed range; else 0
}

// Redelivered is an event to be delivered to a sink again.
type Redelivered struct {
	// Record is the original event. Seq is 0 if it was a dead letter.
	Record
	Offset RedeliveryOffset
	// Key is the key of the event's dead letter if it is rejected again: the key
	// that its dead letter had before, else DeadKey of Seq.
	Key string
}

// Redelivery is the next part of a sink's redelivery queue.
type Redelivery struct {
	Offset  RedeliveryOffset // where the queue begins; before Records if some events were trimmed
	Records []Redelivered
}

// RedeliveryCommit is what a sink has done with the leading events of a
// Redelivery.
type RedeliveryCommit struct {
	Sink string
	// Expect is where the caller believes the queue to begin: Redelivery.Offset.
	Expect RedeliveryOffset
	// Last is the offset of the last event that is acknowledged or among Dead, and
	// Events is how many there are. Other events up to Last had been trimmed, and
	// count as skipped.
	Last   RedeliveryOffset
	Events int
	Dead   []DeadLetter
}

// Range is a range of the journal; the zero value is empty.
type Range struct {
	First, Last uint64 // sequence numbers
}

// Redeliveries is the part of a store that delivers events again. Each sink that has a
// cursor has a redelivery queue, separate from its cursor. Its methods are safe for
// concurrent use.
type Redeliveries interface {
	// Requeue moves a sink's dead letters to the end of its queue, in the order of keys, or
	// all of them in the order of their keys if keys is nil. It ignores unknown keys, and
	// leaves a dead letter whose body is not an event where it is. n is how many were moved,
	// even if err is not nil: many dead letters are moved in several transactions.
	Requeue(ctx context.Context, sink string, keys []string) (n int, err error)
	// Replay appends a range of the journal to the sink's queue: from the first event recorded
	// at or after since up to the sink's cursor (events after the cursor are delivered
	// anyway). While the sink is configured, Limits.Retain trims no part of the range before
	// it is redelivered; MaxBytes does.
	Replay(ctx context.Context, sink string, since time.Time) (Range, error)
	// Redeliver returns the next events of the queue, without waiting, in the order in which
	// they were queued; no records if there are none. It changes nothing. The caller owns the
	// result.
	Redeliver(ctx context.Context, sink string, max Batch) (Redelivery, error)
	// CommitRedelivery removes events from the queue and writes the dead letters with that. It
	// returns ErrFenced if the queue does not begin at s.Expect, and ErrDeadFull as
	// CommitDelivery does.
	CommitRedelivery(ctx context.Context, s RedeliveryCommit) error
	// WaitRedelivery blocks until there is something to redeliver, and returns nil; it returns
	// ctx's error if ctx is done first, or ErrClosed.
	WaitRedelivery(ctx context.Context, sink string) error
}

// Operations is the part of a store that operators use. Its methods are safe for
// concurrent use.
type Operations interface {
	// DeadLetterOf returns the dead letter of an owner with a key; found is false if there is
	// none.
	DeadLetterOf(ctx context.Context, o Owner, key string) (deadLetter DeadLetter, found bool, err error)
	// Since returns the sequence number of the first event in the journal that was recorded at
	// or after t, or the number that the next event will get. Its cost does not grow with the
	// journal.
	Since(ctx context.Context, t time.Time) (uint64, error)
	// DropDead drops an owner's dead letters with the given keys, or all of them if keys is
	// nil. It ignores unknown keys. n is how many were dropped, even if err is not nil: many
	// are dropped in several transactions.
	DropDead(ctx context.Context, o Owner, keys []string) (n int, err error)
	// Forget drops the cursor, the redelivery queue and the dead letters of a sink. It returns
	// an error if the sink is configured, or never was.
	Forget(ctx context.Context, sink string) error
	// ForgetAppliance drops the positions of an appliance's streams and what its sources and
	// the sinks remember about it, so that another appliance can take its name. What the
	// journal and the dead letters hold of it stays, and so does the position of the events
	// about it. found is false if there was nothing to drop. It returns an error while
	// commands for it are pending.
	ForgetAppliance(ctx context.Context, appliance string) (found bool, err error)
	// Pause records, across restarts, whether an operator has paused a sink; Stats returns it.
	// It has no other effect here. It returns an error if the sink was never configured.
	Pause(ctx context.Context, sink string, paused bool) error
	// Rename moves everything that the state holds of a sink to another name, in one
	// transaction. It returns an error if either is configured, if from never was, or if the
	// state holds anything under the name to.
	Rename(ctx context.Context, from, to string) error
	// Backup writes a consistent copy of the state to w, and returns its size. Reads and
	// writes continue meanwhile; a slow w blocks nobody. The copy is a complete state file.
	Backup(ctx context.Context, w io.Writer) (int64, error)
}

// DeadKey returns the key of the dead letter of an event in the journal.
func DeadKey(seq uint64) string { return fmt.Sprintf("%020d", seq) }

// Owner identifies the owner of dead letters: a sink or a source.
type Owner string

// SinkOwner returns the owner of a sink's dead letters.
func SinkOwner(sink string) Owner { return Owner("sink/" + sink) }

// Sink returns the name of the sink that owns the dead letters; ok is false if a source
// owns them.
func (o Owner) Sink() (name string, ok bool) { return strings.CutPrefix(string(o), "sink/") }

// sourceOwners is the prefix of owners that are sources.
const sourceOwners = "source/"

// SourceOwner returns the owner of a source's dead letters.
func SourceOwner(s Source) Owner { return Owner(sourceOwners + s.String()) }

// Stats is the size of the state at one moment.
type Stats struct {
	First, Last uint64 // sequence numbers of the journal's ends; First = Last+1 if it is empty
	Events      uint64 // in the journal
	Bytes       int64  // of events in the journal
	MaxBytes    int64
	Sinks       map[string]SinkStats // by name, sinks that are no longer configured included
	DeadLetters map[Owner]DeadStats
	Commands    CommandStats
	FileBytes   int64 // size of the file on disk
	Layout      int   // version of the file's layout
	SourcesWait bool  // sources wait for space in the journal
}

// SinkStats is the state of one sink.
type SinkStats struct {
	Cursor     uint64
	LagEvents  uint64    // events after the cursor
	LagBytes   int64     // their bytes
	Oldest     time.Time // RecordedTime of the first of them, by the clock as it is now; zero if there is none
	Configured bool
	// PausedSince is when an operator paused it; zero if it is not paused.
	PausedSince time.Time
	// Trimmed counts events after the cursor that were trimmed while the sink was
	// not configured: it will never get them. A Skip over them counts them.
	Trimmed     uint64
	Queued      uint64 // events in the redelivery queue
	QueuedBytes int64  // their bytes
	// Skipped counts all events that the sink never got: those that a Skip moved
	// its cursor over, and those of its redelivery queue that were trimmed. It
	// never decreases.
	Skipped uint64
}

// DeadStats counts dead letters.
type DeadStats struct {
	Count uint64
	Bytes int64 // of their bodies
	// Dropped counts all dead letters of a source that gave way to newer ones. It
	// never decreases.
	Dropped uint64
}

// DeadOverhead is how many bytes a source's dead letter takes of the sources' share in
// addition to its body.
const DeadOverhead = 512

// Limits bound the journal and the dead letters.
type Limits struct {
	// MaxBytes bounds the bytes of events; 0: no bound. Events that every sink has
	// committed give way first; if the others alone reach the bound, Commit waits. One
	// commit may exceed the bound by its own size, so that a page larger than the space
	// left does not block its source for ever. Cursors, positions and dead letters are
	// not counted: delivery continues with a full journal.
	MaxBytes int64
	// Retain is how long committed events are kept after RecordedTime. Like every age here it
	// is elapsed time, even if the clock was set in the meantime.
	Retain time.Duration
	// DeadBytes bounds the bodies of all dead letters; 0: no bound. Each configured sink has
	// its DeadShare: a commit that would exceed it fails with ErrDeadFull. All sources
	// together have one share too. Their dead letters are never refused, since no object may
	// block a stream: the oldest dead letters of the source with the most give way to newer
	// ones, and are counted.
	DeadBytes int64
}

// DeadShare returns how many of DeadBytes each of so many sinks has, and all sources
// together; at least one, or 0 for no bound.
func (l Limits) DeadShare(sinks int) int64 {
	if l.DeadBytes <= 0 {
		return 0
	}
	return max(1, l.DeadBytes/int64(sinks+1))
}
