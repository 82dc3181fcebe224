// Package checkpoint keeps the bridge's durable state: the sources' positions
// and what they know, the journal of events, the sinks' cursors, the dead
// letters, and what sinks are to get again.
//
// Its promises are what delivery at least once rests on:
//
//   - A position is never ahead of the events that it covers: both are
//     committed in one transaction.
//   - A cursor is never ahead of what its sink acknowledged or its dead letters
//     hold: both are committed in one transaction.
//   - Nothing is trimmed from the journal that a configured sink has yet to
//     settle; what it skips is counted, and told by an event, in the same
//     transaction.
//   - An event is in a redelivery queue until it is acknowledged or a dead letter
//     again: it is moved from one to the other in one transaction. What a full
//     journal trims of a range to be replayed is counted.
//   - What a call has returned nil for survives a crash of the machine.
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

// Errors that callers act on. They come wrapped.
var (
	// ErrFenced says that the position or cursor in the store is not the one
	// that the caller believed to be current: somebody else moved it. Nothing
	// was written. The caller must read the state again before it goes on.
	ErrFenced = errors.New("the state was moved by somebody else")
	// ErrClosed says that the store is closed.
	ErrClosed = errors.New("the state is closed")
	// ErrLocked says that another process has the state open.
	ErrLocked = errors.New("the state is in use by another process")
	// ErrNewer says that the state was written by a newer version.
	ErrNewer = errors.New("the state was written by a newer version")
	// ErrDamaged says that the state cannot be read. Nothing was changed.
	ErrDamaged = errors.New("the state is damaged")
	// ErrDeadFull says that a sink's dead letters have no space for more (see
	// Limits). Nothing was written.
	ErrDeadFull = errors.New("the dead letters are full")
	// ErrFull says that the journal has no space (see Limits), and the caller does not
	// wait for it. Nothing was written.
	ErrFull = errors.New("the journal is full of events that a sink has yet to take")
)

// Source names a stream of an appliance: one position.
type Source struct {
	Appliance string // the appliance's name
	Stream    string // detections, audit, or records/<name of the query>
}

// String returns appliance/stream.
func (s Source) String() string { return s.Appliance + "/" + s.Stream }

// Commit is what a source writes at once: events, and the position that covers
// them. All of it is durable, or nothing.
type Commit struct {
	Source Source
	// Expect is the position that the caller believes to be current, nil where
	// there is none yet.
	Expect []byte
	// Position is the new position, in the source's own encoding. Never empty.
	Position []byte
	// Events are appended to the journal in this order.
	Events []transform.Event
	// Remember sets what is known, by key.
	Remember []Entry
	// ForgetBefore lets the store forget entries whose At is lower, a bounded
	// number with each commit. 0 forgets nothing.
	ForgetBefore int64
	// Dead are objects that could not be made into events. Older ones give way to
	// them (see Limits).
	Dead []DeadLetter
	// NoWait fails the commit with ErrFull if the journal has no space, where it
	// would wait for it otherwise.
	NoWait bool
	// Reserve lets the events use half of what the journal reserves for events of the
	// bridge's own (see Space.HasSpace). It is meant for small events that others wait
	// for. The other half is left to Commands.Finish.
	Reserve bool
}

// Entry is what a source remembers of one object between polls. The source
// owns the encoding of Value.
type Entry struct {
	Key   string
	Value []byte // never empty
	At    int64  // what ForgetBefore is compared with, >= 0
}

// DeadLetter is something that did not become an event, or an event that a
// sink's target refused.
type DeadLetter struct {
	// Key is unique within the owner; a dead letter with the key of an older one
	// replaces it.
	Key    string    `json:"key"`
	Class  string    `json:"class"`  // one of a closed set of words
	Reason string    `json:"reason"` // for a person; never holds a secret
	Time   time.Time `json:"time"`   // when it was given up
	Body   []byte    `json:"body"`   // the event in structured form, or the object as it came
}

// Sources is the part of a store that sources use. Its methods are safe for
// concurrent use. Errors other than ErrFenced and ErrClosed (a full disk) can
// pass: the caller tries again.
type Sources interface {
	// Position returns the position last committed, nil where there is none.
	Position(ctx context.Context, source Source) ([]byte, error)
	// Recall returns what is remembered for each key, in the order of keys; nil
	// for what is unknown or forgotten. The caller owns the result.
	Recall(ctx context.Context, source Source, keys []string) ([][]byte, error)
	// Known returns what is remembered, in the order of At and Key, behind the At
	// and Key of after, at most limit entries. The caller owns the result.
	Known(ctx context.Context, source Source, after Entry, limit int) ([]Entry, error)
	// Commit writes c. While the journal has no space (see Limits) it waits,
	// until ctx ends, unless c.NoWait is set; a commit without events needs none. If
	// even the fastest sink is far behind, it waits for it for a moment, while that
	// sink delivers, so that a backlog does not outrun it. ErrFenced where the position
	// is not c.Expect.
	Commit(ctx context.Context, c Commit) error
}

// Record is an event in the journal.
type Record struct {
	Seq   uint64 // rises by one with every event, from 1
	Event transform.Event
}

// Batch bounds what Read returns. At least one event is returned where there
// is one, however large it is.
type Batch struct {
	MaxEvents int // 0: no bound
	MaxBytes  int // of structured events; 0: no bound
}

// Delivery is what a sink has done with the events behind its cursor.
type Delivery struct {
	Sink string
	// Expect is the cursor that the caller believes to be current.
	Expect uint64
	// Cursor is the sequence number of the last event that is acknowledged or
	// among Dead. Cursor >= Expect.
	Cursor uint64
	Dead   []DeadLetter
}

// Start says where a sink that the state has never seen begins.
type Start struct {
	Now   bool      // with what is appended after this
	Since time.Time // with the first event recorded at or after this; zero: with all that the journal holds
}

// Journal is the part of a store that sinks use. Its methods are safe for
// concurrent use.
type Journal interface {
	// Configure says which sinks there are, before any of them reads. A sink
	// that the state has never seen gets a cursor where its Start says. Only
	// these sinks hold the journal back; the cursors of others are kept, and
	// returned by Stats. Until it was called, nothing is trimmed, and all that
	// the journal holds counts as yet to be settled.
	Configure(ctx context.Context, sinks map[string]Start) error
	// Cursor returns the sequence number of the last event that the sink has
	// settled. A sink that was never configured is an error.
	Cursor(ctx context.Context, sink string) (uint64, error)
	// Read returns events after a sequence number, without waiting. An event
	// after a cursor that was trimmed while its sink was not configured is
	// passed over. The caller owns the result.
	Read(ctx context.Context, after uint64, max Batch) ([]Record, error)
	// Wait returns nil once the journal holds an event after the sequence
	// number, else ctx's error, or ErrClosed.
	Wait(ctx context.Context, after uint64) error
	// CommitDelivery moves a cursor and writes the dead letters with it. ErrFenced where
	// the cursor is not s.Expect, ErrDeadFull where the dead letters have no space;
	// a cursor beyond the journal is an error.
	CommitDelivery(ctx context.Context, s Delivery) error
	// Dead returns the dead letters of an owner in the order of their keys,
	// after a key ("": from the first), at most limit of them.
	Dead(ctx context.Context, o Owner, after string, limit int) ([]DeadLetter, error)
	// Stats tells what the state holds. It costs no more with a large journal
	// than with a small one.
	Stats(ctx context.Context) (Stats, error)
}

// Skip is what a sink's lag policy does: it leaves events behind its cursor
// undelivered, and tells so.
type Skip struct {
	Sink string
	// Expect is the cursor that the caller believes to be current.
	Expect uint64
	// Cursor is the sequence number of the last event that is skipped, those
	// that were trimmed already among them. Cursor > Expect.
	Cursor uint64
	// Event tells what was skipped. It is appended to the journal, for every
	// sink, this one too.
	Event transform.Event
}

// Budget bounds what a sink may have yet to settle.
type Budget struct {
	Since    time.Time // events recorded before it are too old; zero: none is
	MaxBytes int64     // of events; 0: no bound
}

// Excess is what a sink has yet to settle beyond a Budget, or nothing where
// Cursor is Expect.
type Excess struct {
	Expect uint64 // the cursor
	Cursor uint64 // the sequence number of the last event that is too much
	Events uint64 // those that were trimmed already among them
	Bytes  int64  // of those that were not trimmed
	// Oldest and Newest are the times up to which the first and the last of those
	// that were not trimmed were recorded; zero where all were.
	Oldest, Newest time.Time
}

// Skips is the part of a store that lag policies use. It is safe for concurrent
// use.
type Skips interface {
	// Over returns what a sink would have to skip to be within a budget. It costs
	// no more with a large journal than with a small one.
	Over(ctx context.Context, sink string, b Budget) (Excess, error)
	// Skip moves the cursor, counts what was skipped, and appends the event, all
	// at once. It needs no space in the journal. ErrFenced where the cursor is not
	// s.Expect; a cursor beyond the journal is an error.
	Skip(ctx context.Context, s Skip) error
}

// RedeliveryOffset is a place in a sink's redelivery queue. Places are compared and handed
// back as they are; nothing else is made of them.
type RedeliveryOffset struct {
	// Item rises with everything that is queued, from 1. Queues never share a number,
	// even if one sink has the name that another had.
	Item uint64
	Seq  uint64 // within a range the event's number in the journal; else 0
}

// Redelivered is an event that a sink is to get again.
type Redelivered struct {
	// Record is the event as it was. Seq is 0 where it was a dead letter.
	Record
	Offset RedeliveryOffset
	// Key is that of the event's dead letter, if it is refused again: the one
	// that it had, else DeadKey of Seq.
	Key string
}

// Redelivery is what a sink is to get next from its redelivery queue.
type Redelivery struct {
	Offset  RedeliveryOffset // where the queue begins now; before Records, if some were trimmed
	Records []Redelivered
}

// RedeliveryCommit is what a sink has done with the leading events of a
// Redelivery.
type RedeliveryCommit struct {
	Sink string
	// Expect is where the caller believes the queue to begin: Redelivery.Place.
	Expect RedeliveryOffset
	// Last is the place of the last event that is acknowledged or among Dead, and
	// Events the number of them. Others up to Last had been trimmed, and are
	// counted as skipped.
	Last   RedeliveryOffset
	Events int
	Dead   []DeadLetter
}

// Range is a stretch of the journal; the zero value is none.
type Range struct {
	First, Last uint64 // sequence numbers
}

// Redeliveries is the part of a store that delivers events again. Each sink that
// has a cursor has a queue for that, apart from its cursor. Its methods are safe
// for concurrent use.
type Redeliveries interface {
	// Requeue moves dead letters of a sink to the end of its queue, in the order
	// of keys, or all that there are, in the order of their keys, where keys is
	// nil. A key that is not there is passed over, and a dead letter whose body is no
	// event stays where it is. n is how many were moved, with an error too: many
	// dead letters are moved in several transactions.
	Requeue(ctx context.Context, sink string, keys []string) (n int, err error)
	// Replay puts a stretch of the journal at the end of the sink's queue: from
	// the first event recorded at or after since up to the sink's cursor (what
	// lies behind the cursor comes anyway). While the sink is configured,
	// Limits.Retain trims nothing of it that is yet to be delivered; MaxBytes does.
	Replay(ctx context.Context, sink string, since time.Time) (Range, error)
	// Redeliver returns the next events of the queue, without waiting, in the
	// order in which they were queued, and no records where there is nothing. It
	// changes nothing. The caller owns the result.
	Redeliver(ctx context.Context, sink string, max Batch) (Redelivery, error)
	// CommitRedelivery takes events out of the queue and writes the dead letters
	// with that. ErrFenced where the queue does not begin at s.Expect; ErrDeadFull
	// as Settle.
	CommitRedelivery(ctx context.Context, s RedeliveryCommit) error
	// WaitRedelivery returns nil once there is something to redeliver, else
	// ctx's error, or ErrClosed.
	WaitRedelivery(ctx context.Context, sink string) error
}

// Operations is the part of a store that operators use. Its methods are safe for
// concurrent use.
type Operations interface {
	// DeadLetterOf returns the dead letter of an owner with a key; found is false
	// where there is none.
	DeadLetterOf(ctx context.Context, o Owner, key string) (deadLetter DeadLetter, found bool, err error)
	// Since returns the number of the first event in the journal that was recorded at or
	// after a time, or the number that the next one will get. It costs no more with a
	// large journal than with a small one.
	Since(ctx context.Context, t time.Time) (uint64, error)
	// DropDead forgets dead letters: those with the keys, or all that there are
	// where keys is nil. A key that is not there is passed over. n is how many
	// were dropped, with an error too: many are dropped in several transactions.
	DropDead(ctx context.Context, o Owner, keys []string) (n int, err error)
	// Forget drops the cursor, the redelivery queue and the dead letters of a
	// sink. It is an error while the sink is configured, or was never.
	Forget(ctx context.Context, sink string) error
	// ForgetAppliance drops the positions of an appliance's streams and what is known of
	// it, to its sources and to sinks, so that another one can have its name. What the
	// journal and the dead letters hold of it stays, and so does the position of the
	// events about it. found is false if there is nothing to drop. It is an error while
	// commands for it are pending.
	ForgetAppliance(ctx context.Context, appliance string) (found bool, err error)
	// Pause keeps, over restarts, whether an operator has paused a sink: Stats tells
	// it. Nothing else follows from it here. A sink that was never configured is an
	// error.
	Pause(ctx context.Context, sink string, paused bool) error
	// Rename gives what the state holds of a sink to another name, at once. It is
	// an error while either is configured, where from never was, and where the
	// state holds something of to.
	Rename(ctx context.Context, from, to string) error
	// Backup writes a copy of the state as it is at one moment, and returns its
	// size. Others go on to read and write meanwhile; a slow w holds up nobody.
	// The copy is a state of its own.
	Backup(ctx context.Context, w io.Writer) (int64, error)
}

// DeadKey is the key of the dead letter of an event in the journal.
func DeadKey(seq uint64) string { return fmt.Sprintf("%020d", seq) }

// Owner says whose dead letters are meant: a sink's or a source's.
type Owner string

// SinkOwner is the owner of a sink's dead letters.
func SinkOwner(sink string) Owner { return Owner("sink/" + sink) }

// Sink returns the name of the sink whose dead letters are meant; ok is false
// where they are a source's.
func (o Owner) Sink() (name string, ok bool) { return strings.CutPrefix(string(o), "sink/") }

// sourceOwners is what the owners of sources' dead letters begin with.
const sourceOwners = "source/"

// SourceOwner is the owner of a source's dead letters.
func SourceOwner(s Source) Owner { return Owner(sourceOwners + s.String()) }

// Stats is the size of the state at one moment.
type Stats struct {
	First, Last uint64 // sequence numbers of the journal's ends; First = Last+1 where it is empty
	Events      uint64 // in the journal
	Bytes       int64  // of events in the journal
	MaxBytes    int64
	Sinks       map[string]SinkStats // by name, those no longer configured too
	DeadLetters map[Owner]DeadStats
	Commands    CommandStats
	FileBytes   int64 // size of the file on disk
	Layout      int   // version of the file's layout
	SourcesWait bool  // sources wait for space in the journal
}

// SinkStats is where one sink stands.
type SinkStats struct {
	Cursor     uint64
	LagEvents  uint64    // events after the cursor
	LagBytes   int64     // their bytes
	Oldest     time.Time // RecordedTime of the first of them, by the clock as it is now; zero where there is none
	Configured bool
	// PausedSince is when an operator paused it; zero: it is not paused.
	PausedSince time.Time
	// Trimmed counts events behind the cursor that were trimmed while the sink was
	// not configured: it will never get them. A Skip over them counts them.
	Trimmed     uint64
	Queued      uint64 // events in the redelivery queue
	QueuedBytes int64  // their bytes
	// Skipped counts, for good, the events that the sink never got: those that a
	// Skip moved its cursor over, and those of its redelivery queue that were
	// trimmed.
	Skipped uint64
}

// DeadStats counts dead letters.
type DeadStats struct {
	Count uint64
	Bytes int64 // of their bodies
	// Dropped counts, for good, those of a source that gave way to newer ones.
	Dropped uint64
}

// DeadOverhead is what a dead letter of a source takes of the sources' share beside
// its body.
const DeadOverhead = 512

// Limits bound the journal and the dead letters.
type Limits struct {
	// MaxBytes bounds the bytes of events; 0: no bound. Events that every sink has settled
	// give way first; where the others alone reach it, Commit waits. One commit
	// may pass the bound by its own size, so that a page larger than what is
	// left cannot stand still for ever. Cursors, positions and dead letters are
	// not counted: delivery goes on in a full journal.
	MaxBytes int64
	// Retain keeps settled events for so long after RecordedTime. Like every age here it
	// is the time that has passed, even if the clock was set in the meantime.
	Retain time.Duration
	// DeadBytes bounds the bodies of all dead letters; 0: no bound. Each configured
	// sink has its DeadShare: what would pass it is refused with ErrDeadFull. All
	// sources together have one, too. They are never refused, since no object may
	// hold a stream up: the oldest dead letters of the source with the most give way
	// to newer ones, and are counted.
	DeadBytes int64
}

// DeadShare is how many of DeadBytes each of so many sinks has, and all sources
// together, one at least; 0: no bound.
func (l Limits) DeadShare(sinks int) int64 {
	if l.DeadBytes <= 0 {
		return 0
	}
	return max(1, l.DeadBytes/int64(sinks+1))
}
