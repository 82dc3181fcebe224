package replicated

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
)

// SnapshotterOptions configures a Snapshotter.
type SnapshotterOptions struct {
	// Patience is how much more log it waits for, as a share of what makes a snapshot due: the one
	// with the least makes it, and the others see it in time.
	Patience float64

	Bytes    int64  // of log that make a snapshot due, if the last one is smaller; 0: 128 MiB
	Messages uint64 // that make one due; 0: 100,000

	// Made is called after each attempt; may be nil.
	Made func(s Snapshot, took time.Duration, err error)
}

const (
	defaultSnapshotBytes    = 128 << 20
	defaultSnapshotMessages = 100_000
	pointerInterval         = time.Minute      // how often the pointer is read
	dueInterval             = time.Second      // how often it is seen whether a snapshot is due
	snapshotPause           = 15 * time.Second // after a failure
)

// Snapshotter writes a state down as soon as the log behind the last snapshot is as long as that
// snapshot: so no more is written for snapshots than for the log. A Follower has one; the
// owner without followers may run one itself.
type Snapshotter struct {
	log       Stream
	snapshots Snapshots
	state     Dumper
	o         SnapshotterOptions

	mu     sync.Mutex
	last   Snapshot // the newest that is known
	offset uint64   // of the state
	bytes  int64    // of log behind last, as far as it was noted
	needed uint64   // offset of which somebody needs a snapshot, or of a later one
}

// NewSnapshotter returns a snapshotter of a state that follows a log, or owns it.
func NewSnapshotter(log Stream, s Snapshots, state Dumper, o SnapshotterOptions) *Snapshotter {
	o.Bytes = cmp.Or(o.Bytes, defaultSnapshotBytes)
	o.Messages = cmp.Or(o.Messages, defaultSnapshotMessages)
	return &Snapshotter{log: log, snapshots: s, state: state, o: o}
}

// Note notes that the state has the log up to an offset, and so many bytes more of it. It is
// safe for concurrent use.
func (n *Snapshotter) Note(offset uint64, bytes int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.offset = max(n.offset, offset)
	n.bytes += int64(bytes)
}

// Need notes that a snapshot of an offset or a later one is needed, however short the log
// behind the last one is. It is made once the state is there. It is safe for concurrent use.
func (n *Snapshotter) Need(offset uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.needed = max(n.needed, offset)
}

// Status returns the newest snapshot that is known, and the bytes of log behind it, as far as
// they were noted. It is safe for concurrent use.
func (n *Snapshotter) Status() (last Snapshot, logBytes int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.last, n.bytes
}

// due reports whether there is enough log, or somebody needs a snapshot.
func (n *Snapshotter) due() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.offset <= n.last.Offset {
		return false
	}
	if n.last.Offset < n.needed && n.needed <= n.offset {
		return true
	}
	bytes, messages := float64(max(n.o.Bytes, n.last.Bytes)), float64(n.o.Messages)
	wait := 1 + n.o.Patience
	return float64(n.bytes) >= wait*bytes || float64(n.offset-n.last.Offset) >= wait*messages
}

// Run makes snapshots until ctx ends.
func (n *Snapshotter) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := n.step(ctx); err != nil {
			pause(ctx, snapshotPause)
		}
		for waited := time.Duration(0); waited < pointerInterval && ctx.Err() == nil && !n.due(); waited += dueInterval {
			pause(ctx, dueInterval)
		}
	}
}

// step makes a snapshot if one is due and no other member has made it.
func (n *Snapshotter) step(ctx context.Context) error {
	begun := time.Now()
	p, _, err := n.snapshots.Pointer(ctx)
	if err != nil {
		if n.due() {
			n.made(ctx, Snapshot{}, begun, err)
		}
		return err
	}
	n.mu.Lock()
	if p.Last.Offset > n.last.Offset {
		n.last, n.bytes = p.Last, 0
	}
	noted := n.bytes
	n.mu.Unlock()
	if !n.due() {
		return nil
	}
	s, err := WriteSnapshot(ctx, n.log, n.snapshots, n.state)
	if ctx.Err() != nil {
		return nil
	}
	if s.Object != "" {
		n.mu.Lock()
		n.last = s
		n.bytes -= noted
		n.mu.Unlock()
	}
	n.made(ctx, s, begun, err)
	return err
}

// made reports an attempt, unless another member was faster or ctx ended it.
func (n *Snapshotter) made(ctx context.Context, s Snapshot, begun time.Time, err error) {
	if n.o.Made != nil && ctx.Err() == nil && !errors.Is(err, ErrConflict) {
		n.o.Made(s, time.Since(begun), err)
	}
}
