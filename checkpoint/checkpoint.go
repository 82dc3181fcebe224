// Package checkpoint keeps the bridge's durable state: the position and the known objects of every
// source, the event journal, the sinks' cursors, the dead letters, and the
// redelivery queues.
//
// At-least-once delivery rests on these guarantees:
//
//   - A position is never ahead of the events that it covers: both are
//     committed in one transaction.
//   - A cursor is never ahead of what its sink acknowledged, parked or dead-lettered: all
//     are committed in one transaction.
//   - An event is not trimmed from the journal before every configured sink has
//     committed it. Events that a sink skips are counted and reported by an event
//     of their own, in the same transaction.
//   - An event stays in a redelivery queue, or parked, until it is acknowledged or becomes
//     a dead letter: it moves from one to the other in one transaction. Events of a
//     replayed range that a full journal trims are counted.
//   - A write that has returned nil survives a crash of the machine.
package checkpoint

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"ndrbridge/checkpoint/internal/boltfile"
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
	ErrNewer = boltfile.ErrNewer
	// ErrDamaged is returned if the state cannot be read. Nothing was changed.
	ErrDamaged = errors.New("the state is damaged")
	// ErrDeadFull is returned if a sink's dead letters have no space for more (see Limits).
	// Nothing was written.
	ErrDeadFull = errors.New("the dead letters are full")
	// ErrParkedFull is returned if a sink's parked events have no space for more (see Limits).
	// Nothing was written.
	ErrParkedFull = errors.New("the parked events are full")
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

// Owner is a sink or source that has dead letters; it is not the owner of a log (see ErrNotOwner).
type Owner string

// SinkOwner returns the owner of a sink's dead letters.
func SinkOwner(sink string) Owner { return Owner("sink/" + sink) }

// Sink returns the name of the sink that owns the dead letters; ok is false if a source
// owns them.
func (o Owner) Sink() (name string, ok bool) { return strings.CutPrefix(string(o), "sink/") }

// Source returns the source that is the owner. ok is false if the owner is none.
func (o Owner) Source() (source Source, ok bool) {
	name, isSource := strings.CutPrefix(string(o), sourceOwners)
	appliance, stream, found := strings.Cut(name, "/")
	if !isSource || !found {
		return Source{}, false
	}
	return Source{Appliance: appliance, Stream: stream}, true
}

// sourceOwners is the prefix of owners that are sources.
const sourceOwners = "source/"

// SourceOwner returns the owner of a source's dead letters.
func SourceOwner(s Source) Owner { return Owner(sourceOwners + s.String()) }

// Entry is what a source remembers about one object between polls. The source owns the
// encoding of Value.
type Entry struct {
	Key   string
	Value []byte // never empty
	At    int64  // compared with ForgetBefore, >= 0
}

// DeadLetter is an object that did not become an event, or an event that a sink's target
// rejected. Its JSON is the head of its stored form, without key and body.
type DeadLetter struct {
	// Key is unique within the owner; a dead letter with the key of an older one
	// replaces it.
	Key    string    `json:"-"`
	Class  string    `json:"class"`  // one of a closed set of words
	Reason string    `json:"reason"` // for a person; never holds a secret
	Time   time.Time `json:"time"`   // when the bridge gave it up
	Body   []byte    `json:"-"`      // the event in structured form, or the object as received
}

// DeadKey returns the key of the dead letter of an event in the journal.
func DeadKey(seq uint64) string { return fmt.Sprintf("%020d", seq) }

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
	// its DeadShare: a commit that would exceed it fails with ErrDeadFull. The sink's parked
	// events have a share of the same size: a commit that would exceed it fails with
	// ErrParkedFull, except that a single event may always be parked. All sources together
	// have one share too. Their dead letters are never refused, since no object may block a
	// stream: the oldest dead letters of the source with the most give way to newer ones, and
	// are counted.
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
