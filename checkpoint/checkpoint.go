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

// DeadKey returns the key of the dead letter of an event in the journal.
func DeadKey(seq uint64) string { return fmt.Sprintf("%020d", seq) }

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

// Memories is the part of a store in which sinks keep what they created at their targets,
// such as the message or the ticket of a detection. Its methods are safe for concurrent
// use.
//
// A sink's memory is forgotten and renamed with the sink.
type Memories interface {
	// RecallSink returns a sink's remembered values for the keys, in their order; nil for an
	// unknown key. The caller owns the result.
	RecallSink(ctx context.Context, sink string, keys []string) ([][]byte, error)
	// RememberSink sets remembered entries of a sink, by key, all of them or none. It forgets
	// entries whose At is lower than forgetBefore, a bounded number with each call; 0: none.
	// An entry under the SourceKey of an object that a source still knows is kept. It returns
	// an error if the sink was never configured.
	RememberSink(ctx context.Context, sink string, entries []Entry, forgetBefore int64) error
	// RefreshSink sets the At of a sink's entries under the keys to at, if it is lower than
	// due. It writes nothing if no entry is due.
	RefreshSink(ctx context.Context, sink string, keys []string, at, due int64) error
}

// Commands is the part of a store that keeps commands for appliances. Its methods are safe
// for concurrent use.
type Commands interface {
	Space
	// Accept stores commands, all of them or none, and returns the result of each, in their
	// order. Two commands of one call with the same Key are one command. The fields ID, State,
	// Note, Reason and Done are ignored. Accept returns ErrCommandsFull if more than
	// MaxCommands would be pending.
	Accept(ctx context.Context, commands []Command) ([]Acceptance, error)
	// Commands returns up to limit commands that f selects with an ID above after, in the
	// order of their IDs. The caller owns the result. If f has a Subject, or selects pending
	// commands, the cost does not depend on how many other commands there are.
	Commands(ctx context.Context, f CommandFilter, after uint64, limit int) ([]Command, error)
	// Command returns one command; found is false if there is none.
	Command(ctx context.Context, id uint64) (c Command, found bool, err error)
	// Note stores a note with a pending command, and expected changes as Outcome does. It
	// returns ErrFenced if the command is no longer pending.
	Note(ctx context.Context, id uint64, note []byte, expect []Entry) error
	// Finish ends a pending command. It returns ErrFenced if the command is no longer pending.
	// Its events are appended even if the journal is full: the caller must not begin a command
	// unless HasSpace reports space in the reserve.
	Finish(ctx context.Context, o Outcome) error
	// RetryCommand makes a rejected command pending again, with its old ID. It returns an
	// error if there is no such command, or it is not rejected.
	RetryCommand(ctx context.Context, id uint64) error
	// DropCommands drops commands, pending ones too, and ignores unknown IDs. n is how many
	// were dropped.
	DropCommands(ctx context.Context, ids []uint64) (n int, err error)
	// Expected returns the expected changes of an appliance's commands, in the order of their
	// keys.
	Expected(ctx context.Context, appliance string) ([]Entry, error)
	// DropExpected drops the expected changes with the given keys, and those whose At is below
	// before.
	DropExpected(ctx context.Context, appliance string, keys []string, before int64) error
	// WaitCommands blocks until a command with an ID above after is stored, a command was made
	// pending again since the call, or ctx is done.
	WaitCommands(ctx context.Context, after uint64) error
}

// Space is the part of a store that reports whether its journal is full. It is safe
// for concurrent use.
type Space interface {
	// HasSpace reports whether the journal accepts more events. If reserved is true, it
	// reports it for the events of finished commands (see Commands.Finish), which may use the
	// whole reserve: a sixteenth of Limits.MaxBytes beyond it, and at least 64 KiB.
	HasSpace(ctx context.Context, reserved bool) (bool, error)
}
