package replicated

import (
	"context"
	"errors"
	"time"
)

var (
	// ErrNoSnapshot is returned by Restore if there are no snapshots: the log has everything
	// from its first message on.
	ErrNoSnapshot = errors.New("there is no snapshot")
	// ErrPointerMoved is returned if another member replaced the pointer to the snapshots.
	ErrPointerMoved = errors.New("another member made a snapshot")
)

// Snapshot is a state that was written down.
type Snapshot struct {
	Offset uint64    `json:"offset"` // up to which the state has the log
	Object string    `json:"object"` // empty: there is no snapshot
	Chunks int       `json:"chunks"`
	Bytes  int64     `json:"bytes"`  // of all chunks
	Plain  int64     `json:"plain"`  // bytes before they were compressed
	SHA256 string    `json:"sha256"` // of all chunks, in hexadecimal
	Trail  string    `json:"trail"`  // at Offset, as the state knows it; empty: not known
	Time   time.Time `json:"time"`   // by the clock of the member that made it
}

// Pointer names the snapshots from which a shard can be restored, together with what its log
// has behind them. The second one serves if the first cannot be read.
type Pointer struct {
	Generation uint64   `json:"generation"` // grows with each snapshot
	Last       Snapshot `json:"last"`
	Previous   Snapshot `json:"previous"`
}

// Snapshots keeps the snapshots of a shard. An object is a series of chunks; it is complete if
// the pointer has it. The methods are safe for concurrent use, end with their context, and
// take a bounded time for each chunk.
type Snapshots interface {
	// Pointer returns the pointer, which may be the one before the current one, and its
	// revision. Without snapshots both are zero.
	Pointer(ctx context.Context) (p Pointer, revision uint64, err error)
	// SetPointer replaces the pointer of a revision, or returns ErrPointerMoved. After any other
	// error it is not known whether it did.
	SetPointer(ctx context.Context, p Pointer, revision uint64) error
	// MaxData returns the largest chunk.
	MaxData() int
	// Write adds a chunk to an object, once or, if it returned an error or was slow, twice.
	Write(ctx context.Context, object string, index int, chunk []byte) error
	// Read calls yield with the chunks of an object in the order in which they were written,
	// and returns its error.
	Read(ctx context.Context, object string, yield func(index int, chunk []byte) error) error
	// Objects returns the names of all objects, those included that are being written.
	Objects(ctx context.Context) ([]string, error)
	// Remove removes an object.
	Remove(ctx context.Context, object string) error
}
