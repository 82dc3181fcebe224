package replicated

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/klauspost/compress/zstd"

	"ndrbridge/checkpoint"
)

// reader makes records out of the messages of a log. What does not count it ignores: parts of
// a record that its owner never completed, and messages of others than the last owner that
// took the log.
type reader struct {
	decoder *zstd.Decoder
	owner   string // of the last take; empty: not known yet
	epoch   uint64
	term    time.Duration // of the owner's lease; 0: not known
	last    string        // ID of the last message; empty: not known
	origin  []string      // of the trail; empty: not known

	recovered *Snapshot // from which a take continued the log, and with it ErrDiverged; nil: none did

	id    messageID // of the last part in chain
	kind  string
	chain [][]byte // parts of a record that is not complete, at most maxPacked bytes
	bytes int
}

// entry is a complete record of a log.
type entry struct {
	kind   string
	offset uint64
	record []byte // of KindRecord
}

func newReader() (*reader, error) {
	d, err := newDecoder()
	if err != nil {
		return nil, err
	}
	return &reader{decoder: d}, nil
}

func (r *reader) close() { r.decoder.Close() }

// read adds a message and returns the record that it completes, if it does. It keeps m. The
// error is checkpoint.ErrNewer, ErrDiverged or ErrLogLost.
func (r *reader) read(seq uint64, m Message) (e entry, complete bool, err error) {
	before := r.last
	r.last = m.ID
	id, ok := parseID(m.ID)
	if ok && m.Kind != KindTake && r.owner != "" && id.owner != r.owner && id.epoch >= r.epoch {
		// Only messages from before the last take may be late.
		return e, false, fmt.Errorf("%w: message %d is %.100q, of an owner that did not take the log behind what the replica has", ErrLogLost, seq, m.ID)
	}
	if !ok || m.Kind != KindTake && r.owner != "" && (id.owner != r.owner || id.epoch != r.epoch) {
		r.drop()
		return e, false, nil
	}
	if !r.add(id, m) {
		return e, false, nil
	}
	r.owner, r.epoch, r.term = id.owner, id.epoch, m.Term
	if id.part < id.parts {
		return e, false, nil
	}
	data := r.chain[0]
	if len(r.chain) > 1 {
		data = bytes.Join(r.chain, nil)
	}
	r.drop()
	e = entry{kind: m.Kind, offset: seq}
	switch m.Kind {
	case KindRecord:
		if e.record, err = r.decoder.DecodeAll(data, nil); err != nil {
			err = fmt.Errorf("%w: message %d cannot be decompressed: %w", ErrDiverged, seq, err)
		}
	case KindTake:
		err = r.readTake(data, seq, m.ID, before)
	case KindRenew, KindRelease:
	default:
		err = fmt.Errorf("%w: message %d is a %.20q", checkpoint.ErrNewer, seq, m.Kind)
	}
	return e, err == nil, err
}

// add adds a part to the chain, unless it does not follow on it.
func (r *reader) add(id messageID, m Message) bool {
	if id.part == 1 {
		r.drop()
	} else if len(r.chain) == 0 || id.part != r.id.part+1 || !id.sameRecord(r.id) || m.Kind != r.kind || r.bytes+len(m.Data) > maxPacked {
		r.drop()
		return false
	}
	r.id, r.kind = id, m.Kind
	r.chain = append(r.chain, m.Data)
	r.bytes += len(m.Data)
	return true
}

// drop drops the parts of a record that will not be completed.
func (r *reader) drop() { r.chain, r.bytes = nil, 0 }

// readTake reads the content of a take. It returns checkpoint.ErrNewer if this version cannot
// apply the records behind the take, ErrDiverged if they continue a snapshot, and ErrLogLost if
// they continue another message than before, or belong to another cluster.
func (r *reader) readTake(take []byte, seq uint64, id, before string) error {
	var t taken
	if err := json.Unmarshal(take, &t); err != nil {
		return fmt.Errorf("%w: its take of the log cannot be read: %w", checkpoint.ErrNewer, err)
	}
	if t.Format > checkpoint.RecordFormat || t.Layout > checkpoint.Layout {
		return fmt.Errorf("%w: it owns the log (format %d, layout %d; this version reads up to %d and %d)", checkpoint.ErrNewer, t.Format, t.Layout, checkpoint.RecordFormat, checkpoint.Layout)
	}
	if t.Recovered != nil {
		snapshot := t.Recovered.takenAt(seq, id)
		r.recovered = &snapshot
		return fmt.Errorf("%w: message %d continued it from a snapshot, after its end was lost", ErrDiverged, seq)
	}
	if t.After != "" && before != "" && t.After != before {
		return fmt.Errorf("%w: its owner took it behind message %.100q, not behind %q", ErrLogLost, t.After, before)
	}
	if len(r.origin) > 0 && len(t.Origin) > 0 && r.origin[0] != t.Origin[0] {
		return fmt.Errorf("%w: it belongs to the cluster %.100q, not to %q", ErrLogLost, t.Origin[0], r.origin[0])
	}
	r.origin = t.Origin
	return nil
}

// maxPacked bounds the parts of a record that a reader keeps until the last one comes. Stores
// append no record that is larger than checkpoint.MaxRecord.
const maxPacked = checkpoint.MaxRecord + checkpoint.MaxRecord/64

// newEncoder returns an encoder with which EncodeAll compresses records.
func newEncoder() (*zstd.Encoder, error) {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("create the encoder: %w", err)
	}
	return e, nil
}

// newDecoder returns a decoder with which DecodeAll decompresses records.
func newDecoder() (*zstd.Decoder, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(checkpoint.MaxRecord), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("create the decoder: %w", err)
	}
	return d, nil
}
