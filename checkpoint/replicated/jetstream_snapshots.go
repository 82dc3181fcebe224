package replicated

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// jsSnapshots are the Snapshots of a generation. All generations share a stream, in which each
// object has a subject; the pointer is in the cluster's bucket.
type jsSnapshots struct {
	jsStream // whose subject is that of all objects, up to their names
	key      string
}

// snapshots returns those of a generation.
func (j *JetStream) snapshots(generation uint64) Snapshots {
	return &jsSnapshots{
		jsStream: jsStream{j: j, name: j.o.snapshotConfig().Name, subject: fmt.Sprintf("ndr.%s.snap.%d.", j.o.Name, generation)},
		key:      fmt.Sprintf("snap.%d", generation),
	}
}

// Pointer implements Snapshots.
func (s *jsSnapshots) Pointer(ctx context.Context) (p Pointer, revision uint64, err error) {
	ctx, cancel := s.j.bounded(ctx)
	defer cancel()
	bucket, err := s.j.Bucket(ctx)
	if err != nil {
		return p, 0, err
	}
	entry, err := bucket.Get(ctx, s.key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return p, 0, nil
	}
	if err != nil {
		return p, 0, s.j.explain(ctx, "read the pointer "+s.key, err)
	}
	if err := json.Unmarshal(entry.Value(), &p); err != nil {
		return Pointer{}, 0, fmt.Errorf("the pointer %s in the bucket %s is damaged: %w: as long as a member has a copy of the log, delete the pointer with `nats kv del %[2]s %[1]s`, and it is written again", s.key, bucket.Bucket(), err)
	}
	return p, entry.Revision(), nil
}

// SetPointer implements Snapshots.
func (s *jsSnapshots) SetPointer(ctx context.Context, p Pointer, revision uint64) error {
	value, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode the pointer: %w", err)
	}
	ctx, cancel := s.j.bounded(ctx)
	defer cancel()
	bucket, err := s.j.Bucket(ctx)
	if err != nil {
		return err
	}
	if revision == 0 {
		_, err = bucket.Create(ctx, s.key, value)
	} else {
		_, err = bucket.Update(ctx, s.key, value, revision)
	}
	var api *jetstream.APIError
	if errors.Is(err, jetstream.ErrKeyExists) || errors.As(err, &api) && (api.ErrorCode == codeWrongLast || api.ErrorCode == codeWrongLastConstant) {
		return fmt.Errorf("replace the pointer %s: %w", s.key, ErrPointerMoved)
	}
	if err != nil {
		return s.j.explain(ctx, "replace the pointer "+s.key, err)
	}
	return nil
}

// Writer implements Snapshots.
func (s *jsSnapshots) Writer(ctx context.Context, object string) io.Writer {
	return &objectWriter{ctx: ctx, s: s, object: object}
}

// objectWriter writes an object in chunks, each of which is stored only directly behind the one
// before: so none is stored twice.
type objectWriter struct {
	ctx    context.Context
	s      *jsSnapshots
	object string
	last   uint64 // sequence number of the last chunk; 0: there is none
}

// Write implements io.Writer.
func (w *objectWriter) Write(b []byte) (n int, err error) {
	for chunk := range slices.Chunk(b, min(maxPart, w.s.MaxData())) {
		if err := w.write(chunk); err != nil {
			return n, err
		}
		n += len(chunk)
	}
	return n, nil
}

func (w *objectWriter) write(chunk []byte) error {
	ctx, cancel := w.s.j.bounded(w.ctx)
	defer cancel()
	ack, err := w.s.j.js.Publish(ctx, w.s.subject+w.object, chunk, jetstream.WithExpectStream(w.s.name), jetstream.WithExpectLastSequencePerSubject(w.last))
	if err != nil {
		return w.s.j.explain(ctx, "write "+w.object, err)
	}
	w.last = ack.Sequence
	return nil
}

// readIdle is how long the next chunk is waited for.
const readIdle = 30 * time.Second

var errRead = errors.New("all chunks were read")

// Read implements Snapshots.
func (s *jsSnapshots) Read(ctx context.Context, object string, bytes int64, w io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(readIdle, func() { cancel(fmt.Errorf("no chunk came for %s", readIdle)) })
	defer idle.Stop()
	r := &streamReader{s: &s.jsStream, filter: s.subject + object, next: 1, begun: true}
	r.yield = func(m jetstream.Msg, _ uint64) error {
		idle.Stop()
		defer idle.Reset(readIdle)
		if bytes -= int64(len(m.Data())); bytes < 0 {
			return errors.New("it has too many bytes")
		}
		if _, err := w.Write(m.Data()); err != nil || bytes > 0 {
			return err
		}
		return errRead
	}
	if err := r.follow(ctx); err != errRead {
		return fmt.Errorf("read %s: %w", object, errors.Join(err, context.Cause(ctx)))
	}
	return nil
}

// Objects implements Snapshots.
func (s *jsSnapshots) Objects(ctx context.Context) ([]string, error) {
	ctx, cancel := s.j.bounded(ctx)
	defer cancel()
	h, err := s.handle(ctx)
	if err != nil {
		return nil, err
	}
	i, err := h.Info(ctx, jetstream.WithSubjectFilter(s.subject+"*"))
	if err != nil {
		return nil, s.j.explain(ctx, "list the snapshots in "+s.name, err)
	}
	var objects []string
	for subject := range i.State.Subjects {
		objects = append(objects, strings.TrimPrefix(subject, s.subject))
	}
	return objects, nil
}

// Remove implements Snapshots.
func (s *jsSnapshots) Remove(ctx context.Context, object string) error {
	ctx, cancel := s.j.bounded(ctx)
	defer cancel()
	h, err := s.handle(ctx)
	if err != nil {
		return err
	}
	if err := h.Purge(ctx, jetstream.WithPurgeSubject(s.subject+object)); err != nil {
		return s.j.explain(ctx, "remove the snapshot "+object, err)
	}
	return nil
}
