package replicated

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"ndrbridge/checkpoint"
)

// Restore makes the state of the last snapshot in an empty replica, or of the one before if
// that cannot be read, or has another history than the log. empty returns an empty replica
// each time; after an error of Restore the last one has to be deleted. ErrNoSnapshot: empty
// was not called.
func Restore(ctx context.Context, log Stream, s Snapshots, empty func() (Replica, error)) (Snapshot, error) {
	p, _, err := s.Pointer(ctx)
	if err != nil {
		return Snapshot{}, fmt.Errorf("restore: %w", err)
	}
	err = ErrNoSnapshot
	var errs []error
	for _, snapshot := range []Snapshot{p.Last, p.Previous} {
		if snapshot.Object == "" || foreign(ctx, log, snapshot) {
			continue
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
	ctx, cancel := context.WithCancel(ctx)
	in, out := io.Pipe()
	read := make(chan struct{})
	go func() {
		defer close(read)
		out.CloseWithError(readObject(ctx, s, snapshot, out))
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
	plain := &io.LimitedReader{R: z, N: snapshot.Plain}
	records := bufio.NewReader(plain)
	var g group
	for {
		record, err := readRecord(records)
		if err == io.EOF {
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
	// The checksum is checked at the end of the object.
	switch n, err := io.ReadFull(z, make([]byte, 1)); {
	case n > 0 || plain.N > 0:
		return fmt.Errorf("it does not have %d bytes", snapshot.Plain)
	case err != io.EOF:
		return err
	}
	return r.Apply(g.records, checkpoint.Point{Offset: snapshot.Offset, Trail: snapshot.Trail})
}

// readObject writes the chunks of a snapshot to w, and checks them.
func readObject(ctx context.Context, s Snapshots, snapshot Snapshot, w io.Writer) error {
	sum := sha256.New()
	next, bytes := 0, int64(0)
	err := s.Read(ctx, snapshot.Object, func(index int, chunk []byte) error {
		if index < next {
			return nil // written twice
		}
		if bytes += int64(len(chunk)); index > next || bytes > snapshot.Bytes {
			return fmt.Errorf("chunk %d of %d is missing", next, snapshot.Chunks)
		}
		next++
		sum.Write(chunk)
		_, err := w.Write(chunk)
		return err
	})
	switch {
	case err != nil:
		return err
	case next != snapshot.Chunks:
		return fmt.Errorf("%d chunks of %d are there", next, snapshot.Chunks)
	case hex.EncodeToString(sum.Sum(nil)) != snapshot.SHA256:
		return errors.New("its checksum is wrong")
	}
	return nil
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
