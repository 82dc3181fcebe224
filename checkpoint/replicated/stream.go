// Package replicated keeps the log of a cluster in a NATS JetStream stream, and makes replicas of
// its state.
//
// Each message carries the sequence number that the stream's last message must have. That is the
// fence: as soon as another member has taken the log, nothing that the old owner sends is
// stored. A record larger than a message is a chain of them, complete with its last part;
// chains that are not completed do not count.
//
// These guarantees hold while the servers keep acknowledged messages:
//
//   - A record whose Append returned nil is in the log, once, behind those before it.
//   - A record whose Append returned checkpoint.ErrNotOwner is not, and never will be.
//   - Behind a take there are no records of other owners, until the next take.
//
// If the servers lose the end of a log, the rest is a state of the past. Owners and replicas
// that have more detect it. The cluster then goes on from a replica, in a new log: the next
// generation. Within a generation no sequence number is used twice.
package replicated

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Errors that callers act on. They are returned wrapped.
var (
	// ErrLogLost is returned if acknowledged records at the end of the log are missing or
	// replaced by others, or all of it is. Nothing was appended. Only an operator can decide from
	// which state the next generation begins.
	ErrLogLost = errors.New("the log lost records")
	// ErrMoved is returned if the log was retired: the cluster goes on in another generation.
	ErrMoved = errors.New("the log was retired")
	// ErrDiverged is returned if the log does not lead on from the replica: restore it from a
	// snapshot. Unless the error is ErrPurged as well, the replica may have the only copy of its
	// records: set it aside.
	ErrDiverged = errors.New("the replica does not fit the log")

	// ErrNoKey is returned for a key that has no value.
	ErrNoKey = errors.New("the key does not exist")
	// ErrConflict is returned if another process changed a value first.
	ErrConflict = errors.New("another process changed it")

	// ErrNoMessage is returned by streams for a sequence number without a message.
	ErrNoMessage = errors.New("no such message")
	// ErrPurged is returned by Stream.Follow, and by a Follower, if the stream begins after the
	// sequence number that was asked for.
	ErrPurged = errors.New("the stream begins later")
)

// WrongLastError is the answer to a message whose expectation does not hold. The message
// was not stored.
type WrongLastError struct{ Last uint64 } // the stream's, as its leader sees it

// Error implements error.
func (e *WrongLastError) Error() string {
	return fmt.Sprintf("the stream's last message has sequence number %d", e.Last)
}

// Message is one message of a stream. All but Data are headers, which name its owner, so that a
// stream can be read without its data.
type Message struct {
	ID   string        // owner.epoch.number.part/parts
	Kind string        // KindTake, KindRecord, KindRenew or KindRelease
	Term time.Duration // of its owner's lease, in whole milliseconds; 0: not set
	Data []byte
}

// Stream is a log: messages with sequence numbers from 1 on, none missing
// between the first and the last. A sequence number is never used twice, purged ones
// included, unless the servers lose messages that they had acknowledged. Its methods are
// safe for concurrent use, end with their context, and take a bounded time but for Follow.
type Stream interface {
	// Publish sends m, which is stored only if the stream's last message has the sequence number
	// after. m may change once it has returned. It does not wait: answer is called
	// with the sequence number, with a *WrongLastError, or with another error if this copy was
	// refused. The answer may never come, may come late, and twice; it must not block. An
	// error: the message was not sent, or may be sent later.
	Publish(after uint64, m Message, answer func(seq uint64, err error)) error
	// MaxData returns the largest Data that a message can have.
	MaxData() int
	// Get returns a message as the stream's leader has it, or ErrNoMessage.
	Get(ctx context.Context, seq uint64) (Message, error)
	// Last returns the sequence number of the last message as the stream's leader has it, purged
	// or not. It may be out of date if there are two leaders for a moment.
	Last(ctx context.Context) (uint64, error)
	// Follow calls yield with the messages from a sequence number on, in their order, then with
	// new ones, until ctx ends or yield returns an error, which it returns. ErrPurged: the
	// message from was purged. Sequence numbers that it skips are lost. yield may keep the
	// message.
	Follow(ctx context.Context, from uint64, yield func(seq uint64, m Message) error) error
	// Purge removes the messages before a sequence number.
	Purge(ctx context.Context, before uint64) error
}
