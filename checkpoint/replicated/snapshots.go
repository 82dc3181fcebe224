package replicated

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"ndrbridge/checkpoint"
)

const (
	dumpPiece = 256 << 10
	// maxPiece bounds a record of a dump: dumpPiece and one entry of the state.
	maxPiece = 64 << 20
	// snapshotWindow is how far back the compression of a snapshot refers, which bounds the
	// memory of those who read it.
	snapshotWindow = 1 << 20
)

// WriteSnapshot writes a state down, points to it, and then removes the log and the objects
// before the previous snapshot. Whatever of this a crash prevents, the next snapshot does.
// ErrConflict: another member was faster. ErrDiverged, ErrLogLost: the log does not have the
// message that the state, or the last snapshot, has.
func WriteSnapshot(ctx context.Context, log Stream, s Snapshots, d Dumper) (Snapshot, error) {
	fail := func(err error) (Snapshot, error) { return Snapshot{}, fmt.Errorf("write a snapshot: %w", err) }
	old, revision, err := s.Pointer(ctx)
	if err != nil {
		return fail(err)
	}
	if foreign(ctx, log, old.Last) {
		return fail(fmt.Errorf("%w: message %d is another one than that of the last snapshot", ErrLogLost, old.Last.Offset))
	}
	next := Pointer{Number: old.Number + 1, Previous: old.Last}
	next.Last, err = writeObject(ctx, s, objectName(next.Number), d)
	switch {
	case err != nil:
	case foreign(ctx, log, next.Last):
		err = fmt.Errorf("%w at message %d", ErrDiverged, next.Last.Offset)
	case next.Last.Offset <= next.Previous.Offset:
		err = fmt.Errorf("the state of message %d is not newer than the last snapshot", next.Last.Offset)
	}
	if err != nil {
		return fail(errors.Join(err, abandon(ctx, s, next.Last.Object)))
	}
	if err := s.SetPointer(ctx, next, revision); err != nil {
		// If it is not known whether the pointer was replaced, the object must stay.
		if errors.Is(err, ErrConflict) {
			err = errors.Join(err, abandon(ctx, s, next.Last.Object))
		}
		return fail(err)
	}
	// The message of the previous snapshot stays: it shows whose the log was.
	if err := tidy(ctx, log, s, next, next.Previous.Offset); err != nil {
		return next.Last, fmt.Errorf("the snapshot of message %d was written; %w", next.Last.Offset, err)
	}
	return next.Last, nil
}

// objectName returns a new name, with the number of the pointer that the object is for.
func objectName(number uint64) string {
	return fmt.Sprintf("%d-%s", number, rand.Text())
}

// writeObject writes a state as an object. The snapshot has the object's name even if it
// fails.
func writeObject(ctx context.Context, s Snapshots, object string, d Dumper) (Snapshot, error) {
	snapshot := Snapshot{Object: object, Time: time.Now().UTC().Truncate(time.Second)}
	stored := &counter{w: s.Writer(ctx, object)}
	chunks := bufio.NewWriterSize(stored, maxPart)
	z, err := zstd.NewWriter(chunks, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(snapshotWindow), zstd.WithZeroFrames(true))
	if err != nil {
		return snapshot, err
	}
	var length []byte
	at, err := d.Dump(ctx, dumpPiece, func(record []byte) error {
		if len(record) > maxPiece {
			return fmt.Errorf("a record of %d bytes, the most is %d", len(record), maxPiece)
		}
		length = binary.AppendUvarint(length[:0], uint64(len(record)))
		if _, err := z.Write(length); err != nil {
			return err
		}
		_, err := z.Write(record)
		return err
	})
	if err = errors.Join(err, z.Close()); err == nil {
		err = chunks.Flush()
	}
	snapshot.Offset, snapshot.Trail, snapshot.Bytes = at.Offset, at.Trail, stored.n
	return snapshot, err
}

// counter counts the bytes that are written to w.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// abandon removes an object that nothing points to, unless ctx has ended: then nobody must
// wait for it, and tidy removes it later.
func abandon(ctx context.Context, s Snapshots, object string) error {
	if ctx.Err() != nil {
		return nil
	}
	return s.Remove(ctx, object)
}

// tidy removes the log before a message, and the objects that the pointer p makes needless.
func tidy(ctx context.Context, log Stream, s Snapshots, p Pointer, before uint64) error {
	if before > 0 {
		if err := log.Purge(ctx, before); err != nil {
			return fmt.Errorf("the log before it was not purged: %w", err)
		}
	}
	objects, err := s.Objects(ctx)
	if err != nil {
		return fmt.Errorf("old ones were not removed: %w", err)
	}
	for _, object := range objects {
		if object == p.Last.Object || object == p.Previous.Object || numberOf(object) > p.Number {
			continue // later ones are being written
		}
		if err := s.Remove(ctx, object); err != nil {
			return fmt.Errorf("old ones were not removed: %w", err)
		}
	}
	return nil
}

// numberOf returns the number of the pointer that an object was written for; 0: it
// has no such name.
func numberOf(object string) uint64 {
	number, _, _ := strings.Cut(object, "-")
	n, _ := strconv.ParseUint(number, 10, 64)
	return n
}

// ErrNoSnapshot is returned by Restore if there are no snapshots: the log has everything from its
// first message on.
var ErrNoSnapshot = errors.New("there is no snapshot")

// Snapshot is a state that was written down.
type Snapshot struct {
	Offset uint64    `json:"offset"` // up to which the state has the log
	Object string    `json:"object"` // empty: there is no snapshot
	Bytes  int64     `json:"bytes"`  // of the object
	Trail  string    `json:"trail"`  // at Offset, as the state knows it; empty: not known
	Time   time.Time `json:"time"`   // by the clock of the member that made it
}

// at returns the point of the log that the state has.
func (s Snapshot) at() checkpoint.Point { return checkpoint.Point{Offset: s.Offset, Trail: s.Trail} }

// Pointer names the snapshots from which a state can be restored, together with what the log
// has behind them. The second one serves if the first cannot be read.
type Pointer struct {
	Number   uint64   `json:"number"` // grows with each snapshot
	Last     Snapshot `json:"last"`
	Previous Snapshot `json:"previous"`
}

// Snapshots keeps the snapshots of a log as objects. An object is complete if the pointer has
// it. The methods are safe for concurrent use, end with their context, and wait a bounded time
// for each answer of the servers.
type Snapshots interface {
	// Pointer returns the pointer, which may be the one before the current one, and its
	// revision. Without snapshots both are zero.
	Pointer(ctx context.Context) (p Pointer, revision uint64, err error)
	// SetPointer replaces the pointer of a revision, or returns ErrConflict. After any other
	// error it is not known whether it did.
	SetPointer(ctx context.Context, p Pointer, revision uint64) error
	// Writer returns a writer of a new object, of which every byte is stored once Write has
	// returned. After an error the object is of no use.
	Writer(ctx context.Context, object string) io.Writer
	// Read writes an object of so many bytes to w, or returns an error.
	Read(ctx context.Context, object string, bytes int64, w io.Writer) error
	// Objects returns the names of all objects, those included that are being written.
	Objects(ctx context.Context) ([]string, error)
	// Remove removes an object.
	Remove(ctx context.Context, object string) error
}

// Restore makes the state of the last snapshot of a log in an empty replica, or of the one before
// if that cannot be read. of is the identity of the log: a snapshot of another one is refused.
// empty returns an empty replica each time; after an error of Restore the last one has to be
// deleted. ErrNoSnapshot: empty was not called.
func Restore(ctx context.Context, s Snapshots, of Identity, empty func() (Replica, error)) (Snapshot, error) {
	p, _, err := s.Pointer(ctx)
	if err != nil {
		return Snapshot{}, fmt.Errorf("restore: %w", err)
	}
	err = ErrNoSnapshot
	var errs []error
	for _, snapshot := range []Snapshot{p.Last, p.Previous} {
		if snapshot.Object == "" {
			continue
		}
		if got := parseTrail(snapshot.Trail).Identity; got != of {
			return Snapshot{}, fmt.Errorf("restore: snapshot %s is of %v, not of %v", snapshot.Object, got, of)
		}
		if err = ctx.Err(); err != nil {
			break
		}
		var r Replica
		r, err := empty()
		if err != nil {
			return Snapshot{}, fmt.Errorf("restore: %w", err)
		}
		if err = restore(ctx, s, snapshot, r); err == nil {
			return snapshot, nil
		}
		errs = append(errs, fmt.Errorf("snapshot %s of message %d: %w", snapshot.Object, snapshot.Offset, err))
	}
	if len(errs) > 0 {
		err = errors.Join(errs...)
	}
	return Snapshot{}, fmt.Errorf("restore: %w", err)
}

// foreign reports whether the log is known to have another message at the offset of a
// snapshot than the state had that was written down: the log lost its end since.
func foreign(ctx context.Context, log Stream, s Snapshot) bool {
	id := parseTrail(s.Trail).id
	if id == "" {
		return false
	}
	m, err := log.Get(ctx, s.Offset)
	return err == nil && m.ID != id
}

// restoreBytes is how much is applied in one transaction.
const restoreBytes = 16 << 20

// restore makes the state of a snapshot in an empty replica. Before the last transaction,
// which comes when everything was read and checked, the replica's offset is 0.
func restore(ctx context.Context, s Snapshots, snapshot Snapshot, r Replica) error {
	if snapshot.Bytes <= 0 { // no bytes would be an empty state
		return errors.New("the pointer has no size of it")
	}
	ctx, cancel := context.WithCancel(ctx)
	in, out := io.Pipe()
	read := make(chan struct{})
	go func() {
		defer close(read)
		out.CloseWithError(s.Read(ctx, snapshot.Object, snapshot.Bytes, out))
	}()
	defer func() {
		cancel()
		in.Close()
		<-read
	}()
	z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(snapshotWindow), zstd.WithDecoderLowmem(true))
	if err != nil {
		return err
	}
	defer z.Close()
	records := bufio.NewReader(z)
	var g group
	for {
		record, err := readRecord(records)
		if err == io.EOF { // not before the checksum of the compression was right
			break
		}
		if err != nil {
			return err
		}
		g.records = append(g.records, record)
		if g.bytes += len(record); g.bytes >= restoreBytes {
			if err := r.Apply(g.records, checkpoint.Point{}); err != nil {
				return err
			}
			g = group{}
		}
	}
	return r.Apply(g.records, snapshot.at())
}

// readRecord returns io.EOF after the last record.
func readRecord(r *bufio.Reader) ([]byte, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	if n > maxPiece {
		return nil, fmt.Errorf("a record of %d bytes, the most is %d", n, maxPiece)
	}
	record := make([]byte, n)
	if _, err := io.ReadFull(r, record); err != nil {
		return nil, fmt.Errorf("a record is cut off: %w", err)
	}
	return record, nil
}
