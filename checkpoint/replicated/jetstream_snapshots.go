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

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// meta returns the stream of values and snapshots, whose subject is that of all keys and objects,
// up to their names.
func (j *JetStream) meta() *jsStream {
	return &jsStream{j: j, name: j.o.metaConfig().Name, subject: fmt.Sprintf("ndr.%s.meta.", j.o.Name)}
}

// Get returns the value of a key, and its revision, as the stream's leader has it. If there is no
// value it returns ErrNoKey.
func (j *JetStream) Get(ctx context.Context, key string) (value []byte, revision uint64, err error) {
	ctx, cancel := j.bounded(ctx)
	defer cancel()
	meta := j.meta()
	h, err := meta.handle(ctx)
	var m *jetstream.RawStreamMsg
	if err == nil {
		m, err = h.GetLastMsgForSubject(ctx, meta.subject+key)
	}
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, 0, fmt.Errorf("read %s in the stream %s: %w: %w", key, meta.name, ErrNoKey, err)
	case err != nil:
		return nil, 0, j.explain(ctx, fmt.Sprintf("read %s in the stream %s", key, meta.name), err)
	}
	return m.Data, m.Sequence, nil
}

// Put stores the value of a key if its revision is the given one; 0: if it has none. Otherwise it
// returns ErrConflict. After any other error it is not known whether the value was stored.
func (j *JetStream) Put(ctx context.Context, key string, value []byte, revision uint64) error {
	ctx, cancel := j.bounded(ctx)
	defer cancel()
	meta := j.meta()
	_, err := j.js.PublishMsg(ctx, &nats.Msg{
		Subject: meta.subject + key, Data: value, Header: nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupSubject}},
	}, jetstream.WithExpectStream(meta.name), jetstream.WithExpectLastSequencePerSubject(revision))
	if err == nil {
		return nil
	}
	if _, conflict := wrongLast(err); conflict {
		err = ErrConflict
	}
	return j.explain(ctx, fmt.Sprintf("write %s in the stream %s", key, meta.name), err)
}

// jsSnapshots are the Snapshots of a generation. Each object has a subject; the pointer is the value
// of a key.
type jsSnapshots struct {
	*jsStream // whose subject is that of all objects, up to their names
	key       string
}

// snapshots returns those of a generation.
func (j *JetStream) snapshots(generation uint64) Snapshots {
	s := &jsSnapshots{j.meta(), fmt.Sprintf("snap.%d", generation)}
	s.subject += s.key + "."
	return s
}

// Pointer implements Snapshots.
func (s *jsSnapshots) Pointer(ctx context.Context) (p Pointer, revision uint64, err error) {
	value, revision, err := s.j.Get(ctx, s.key)
	if errors.Is(err, ErrNoKey) && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return p, 0, nil
	}
	if err != nil {
		return p, 0, err
	}
	if err := json.Unmarshal(value, &p); err != nil {
		return Pointer{}, 0, fmt.Errorf("the pointer %s in the stream %s is damaged: %w: as long as a member has a copy of the log, delete the pointer with `nats stream purge %[2]s --subject %[4]s`, and it is written again", s.key, s.name, err, strings.TrimSuffix(s.subject, "."))
	}
	return p, revision, nil
}

// SetPointer implements Snapshots.
func (s *jsSnapshots) SetPointer(ctx context.Context, p Pointer, revision uint64) error {
	return s.j.Put(ctx, s.key, encode(p), revision)
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
	r := &streamReader{s: s.jsStream, filter: s.subject + object, next: 1, begun: true}
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
