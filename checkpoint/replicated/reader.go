package replicated

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/klauspost/compress/s2"

	"ndrbridge/checkpoint"
)

// reader makes records out of the messages of a log. What does not count it ignores: parts of
// a record that its owner never completed, and messages of others than the last owner that
// took the log.
type reader struct {
	owner       string // of the last take; empty: not known yet
	epoch       uint64
	term        time.Duration // of the owner's lease; 0: not known
	last        string        // ID of the last message; empty: not known
	log         Identity      // zero: not known
	description Owner         // the newest description of the owner

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

// read adds a message and returns the record that it completes, if it does. It keeps m. The
// error is checkpoint.ErrNewer, ErrDiverged, ErrLogLost or ErrMoved.
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
		if e.record, err = decompress(data); err != nil {
			err = fmt.Errorf("%w: message %d cannot be decompressed: %w", ErrDiverged, seq, err)
		}
	case KindTake:
		err = r.readTake(data, before)
	case KindRenew:
		r.describe(data)
	case KindRelease:
	default:
		err = fmt.Errorf("%w: message %d is a %.20q: install version %.100q", checkpoint.ErrNewer, seq, m.Kind, r.description.Version)
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

// describe notes what a renewal says of the owner, if it does.
func (r *reader) describe(renewal []byte) {
	var o Owner
	if len(renewal) <= maxOwner && json.Unmarshal(renewal, &o) == nil {
		r.description = o
	}
}

// readTaken returns the content of a take that is one message.
func readTaken(m Message) (t taken, ok bool) {
	if m.Kind != KindTake || len(m.Data) > maxTaken {
		return t, false
	}
	return t, json.Unmarshal(m.Data, &t) == nil
}

// movedTo returns the error for a log that was retired.
func movedTo(generation uint64) error {
	return fmt.Errorf("%w: the cluster goes on in generation %d", ErrMoved, generation)
}

// readTake reads the content of a take. It returns ErrMoved if nothing behind the take counts,
// checkpoint.ErrNewer if this version cannot apply the records behind it, and ErrLogLost if
// they continue another message than before, or belong to another log.
func (r *reader) readTake(data []byte, before string) error {
	t, ok := readTaken(Message{Kind: KindTake, Data: data})
	of := Identity{t.Cluster, t.Generation}
	switch {
	case !ok:
		return fmt.Errorf("%w: its take of the log cannot be read", checkpoint.ErrNewer)
	case t.Moved != 0:
		return movedTo(t.Moved)
	case t.Format > checkpoint.RecordFormat || t.Layout > checkpoint.Layout:
		return fmt.Errorf("%w: it owns the log (format %d, layout %d; this version reads up to %d and %d): install version %.100q", checkpoint.ErrNewer, t.Format, t.Layout, checkpoint.RecordFormat, checkpoint.Layout, t.Owner.Version)
	case t.After != "" && before != "" && t.After != before:
		return fmt.Errorf("%w: its owner took it behind message %.100q, not behind %q", ErrLogLost, t.After, before)
	case r.log != (Identity{}) && of != (Identity{}) && r.log != of:
		return fmt.Errorf("%w: it is the log of %v, not of %v", ErrLogLost, of, r.log)
	}
	r.log, r.description = cmp.Or(of, r.log), t.Owner
	return nil
}

// maxPacked bounds the parts of a record that a reader keeps until the last one comes. Stores
// append no record that is larger than checkpoint.MaxRecord.
const maxPacked = checkpoint.MaxRecord + checkpoint.MaxRecord/64

// decompress returns the record of a message. Stores append none that is larger than
// checkpoint.MaxRecord.
func decompress(data []byte) ([]byte, error) {
	n, err := s2.DecodedLen(data)
	if err != nil {
		return nil, err
	}
	if n > checkpoint.MaxRecord {
		return nil, fmt.Errorf("a record of %d bytes, the most is %d", n, checkpoint.MaxRecord)
	}
	return s2.Decode(nil, data)
}
