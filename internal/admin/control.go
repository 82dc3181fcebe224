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

// From selects the events of the journal with which a Tail begins. The zero value
// selects none.
type From struct {
	// Since selects the events recorded at or after it. If it is not zero, Last is
	// ignored.
	Since time.Time
	// Last is the maximum number of events. A cluster may return a few more: each shard an
	// equal share of it, rounded up.
	Last uint64
	// Live, if not nil, is called once, between the events that From selects and those that
	// are journalled after the call of Tail; some of the latter may come before it. Its
	// argument is the reason why some of the selected events are missing, or nil: in a cluster,
	// a shard could not be asked. If Live returns an error, Tail returns it.
	Live func(missing error) error
}

// Control is the set of operations that the API offers on a bridge. A method returns
// ErrUnknown if the appliance, stream, sink, dead letter or command does not exist, and
// ErrNotRunning if it requires a running bridge and the bridge does not run.
type Control interface {
	// Status returns the bridge's current status.
	Status(ctx context.Context) (Status, error)
	// History returns samples of the last hour.
	History(ctx context.Context) (History, error)
	// Tail calls yield for the events of the journal that from selects, and then for
	// each new event, in order. It returns nil when ctx is done, or yield's error.
	Tail(ctx context.Context, from From, yield func(transform.Event) error) error
	// Dead returns at most limit dead letters of an owner whose keys follow after, in
	// the order of their keys. If after is empty, it begins with the first.
	Dead(ctx context.Context, owner checkpoint.Owner, after string, limit int) ([]checkpoint.DeadLetter, error)
	// DeadGroups groups the dead letters of an owner, or of all owners if it is empty, by
	// their class and the kind of their reason.
	DeadGroups(ctx context.Context, owner checkpoint.Owner) (DeadGroups, error)
	// DeadLetter returns the dead letter with a key.
	DeadLetter(ctx context.Context, owner checkpoint.Owner, key string) (checkpoint.DeadLetter, error)
	// Requeue queues dead letters of a sink for redelivery, all of them if keys is
	// nil, and returns their number. Unknown keys are ignored.
	Requeue(ctx context.Context, sink string, keys []string) (int, error)
	// DropDead deletes dead letters, all of them if keys is nil, and returns their
	// number.
	DropDead(ctx context.Context, owner checkpoint.Owner, keys []string) (int, error)
	// Replay queues for redelivery the events of the journal that r selects and that the
	// sink has already completed. It returns their number.
	Replay(ctx context.Context, sink string, r Replay) (uint64, error)
	// Detection returns what is known about a detection of an appliance.
	Detection(ctx context.Context, appliance string, id int64) (Detection, error)
	// Pause stops delivery to a sink until Resume is called; a pause outlasts
	// restarts. Resume also retries at once whatever waits for a later attempt.
	Pause(ctx context.Context, sink string) error
	Resume(ctx context.Context, sink string) error
	// Backup writes a consistent copy of the state to w.
	Backup(ctx context.Context, w io.Writer) error
	// Reload reloads the configuration. If it returns ErrConfiguration, the configuration
	// is invalid. After any error, nothing was changed.
	Reload(ctx context.Context) (Reloaded, error)
	// Rewind moves the position of a stream back to a time.
	Rewind(ctx context.Context, source checkpoint.Source, to time.Time) error
	// Verify compares what an appliance returns since a time with what was
	// journalled, stream by stream.
	Verify(ctx context.Context, appliance string, since time.Time, report poller.VerifyReport) ([]poller.Verification, error)
	// Commands returns at most limit ticket commands that f selects and whose ID is above
	// after, in the order in which they were accepted.
	Commands(ctx context.Context, f checkpoint.CommandFilter, after uint64, limit int) ([]checkpoint.Command, error)
	// Command returns the ticket command with an id.
	Command(ctx context.Context, id uint64) (checkpoint.Command, error)
	// RetryCommand makes a rejected ticket command pending again. It returns
	// ErrNotRejected if the command was not rejected.
	RetryCommand(ctx context.Context, id uint64) error
	// DropCommand deletes a ticket command. A pending one is not carried out.
	DropCommand(ctx context.Context, id uint64) error
	// Forget deletes the cursor, the dead letters and the queued redeliveries of a sink. It
	// returns an error if the sink is configured.
	Forget(ctx context.Context, sink string) error
	// Rename moves what Forget would delete to another name. It returns an error if a sink
	// of either name is configured, or the state keeps something under the new one.
	Rename(ctx context.Context, sink, to string) error
	// ForgetAppliance deletes the positions of an appliance's streams, and what sources and
	// sinks remember about it, so that its streams begin at their start. It returns an error
	// while it is polled, or ticket commands for it are pending.
	ForgetAppliance(ctx context.Context, name string) error
	// ForgetIdentity deletes the finding that another appliance answers under a name, and
	// the identity that it was compared with.
	ForgetIdentity(ctx context.Context, name string) error
}

// Replay selects events of the journal to deliver again.
type Replay struct {
	// Since and Until select the events that were recorded at or after Since, and before
	// Until unless it is zero.
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"`
	// DryRun counts the events and changes nothing.
	DryRun bool `json:"dry_run,omitempty"`
}

// Reloaded lists what a reload changed.
type Reloaded struct {
	// Changes are lines for people, such as "sink lake: changed"; empty: nothing
	// changed.
	Changes []string `json:"changes"`
}

// ErrUnknown is returned if an appliance, stream, sink or dead letter does not exist.
// It is wrapped with the names that do.
var ErrUnknown = errors.New("unknown")

// ErrConfiguration is returned by Reload if the configuration is invalid, or cannot be
// applied while the bridge runs. The error says why.
var ErrConfiguration = errors.New("invalid configuration")

// ErrBusy is returned if an operation that runs one at a time is already running.
var ErrBusy = errors.New("the bridge is busy")

// ErrUnavailable is returned if the member of a cluster that has to carry out an operation
// cannot be asked now.
var ErrUnavailable = errors.New("not available now; try again in a few seconds")

// ErrToken is returned by a Client if the bridge requires a token and the client has none
// or a wrong one.
var ErrToken = errors.New("the bridge requires a token")

// ErrNotRunning is returned if an operation requires a running bridge.
var ErrNotRunning = errors.New("the bridge does not run")
