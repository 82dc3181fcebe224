package admin

import (
	"context"
	"errors"
	"io"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/poller"
	"ndrbridge/transform"
)

// From says with which events of the journal a Tail begins; zero: with none.
type From struct {
	// Since is when the first of them was recorded at the earliest. It rules where it is
	// not zero.
	Since time.Time
	// Last is how many there are at most.
	Last uint64
}

// Control is what the API does to a bridge. What names an appliance, stream, sink
// or dead letter that is not there fails with ErrUnknown; what only a running
// bridge can do fails with ErrNotRunning on one that does not run.
type Control interface {
	// Status tells how the bridge is doing.
	Status(ctx context.Context) (Status, error)
	// History tells how the bridge did in the last hour.
	History(ctx context.Context) (History, error)
	// Tail calls yield with each event that is journalled from now on, in order,
	// beginning with those of the journal that from names. It returns nil when ctx
	// ends, or yield's error.
	Tail(ctx context.Context, from From, yield func(transform.Event) error) error
	// Dead returns the dead letters of an owner in the order of their keys, after
	// a key ("": from the first), at most limit of them.
	Dead(ctx context.Context, owner checkpoint.Owner, after string, limit int) ([]checkpoint.DeadLetter, error)
	// DeadLetter returns one.
	DeadLetter(ctx context.Context, owner checkpoint.Owner, key string) (checkpoint.DeadLetter, error)
	// Requeue queues dead letters of a sink to be delivered again, all where keys
	// is nil, and returns how many. Keys that are not there are passed over.
	Requeue(ctx context.Context, sink string, keys []string) (int, error)
	// DropDead forgets dead letters, all where keys is nil, and returns how many.
	DropDead(ctx context.Context, owner checkpoint.Owner, keys []string) (int, error)
	// Replay queues the events of the journal that were recorded at or after a
	// time and that the sink has settled, and returns how many.
	Replay(ctx context.Context, sink string, since time.Time) (uint64, error)
	// Pause stops delivery to a sink until Resume, over restarts too. Resume also
	// tries at once what was to be tried later.
	Pause(ctx context.Context, sink string) error
	Resume(ctx context.Context, sink string) error
	// Backup writes a copy of the state as it is at one moment.
	Backup(ctx context.Context, w io.Writer) error
	// Reload loads the configuration again. An error says what is wrong with it,
	// and nothing was changed.
	Reload(ctx context.Context) (Reloaded, error)
	// Rewind moves the position of a stream back to a time.
	Rewind(ctx context.Context, source checkpoint.Source, to time.Time) error
	// Verify compares what an appliance shows since a time with what was
	// journalled, stream by stream.
	Verify(ctx context.Context, appliance string, since time.Time, report poller.VerifyReport) ([]poller.Verification, error)
	Commands
}

// Reloaded is what a reload changed, as lines for a person such as "sink lake:
// changed"; empty where nothing differed.
type Reloaded struct {
	Changes []string `json:"changes"`
}

// ErrUnknown says that there is no appliance, stream, sink or dead letter of a
// name. It comes wrapped, with the names that there are.
var ErrUnknown = errors.New("unknown")

// ErrBusy says that this is done one at a time.
var ErrBusy = errors.New("the bridge is busy")

// ErrNotRunning says that only a running bridge can do this.
var ErrNotRunning = errors.New("the bridge does not run")
