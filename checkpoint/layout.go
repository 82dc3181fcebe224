package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	bolt "go.etcd.io/bbolt"
)

// The file is a bbolt database with these buckets. Integers are 64 bits,
// big-endian, so that keys lie in their order.
//
//	meta       "version" → the number of this layout, in decimal
//	positions  source → position
//	known      a bucket per source: key → At, value
//	forget     a bucket per source: At, key → nothing. Every known entry is here
//	           under its At; an entry that was remembered again is here more than
//	           once, and the older ones are dropped when they come up
//	journal    sequence number, total, recorded → event in structured form. The
//	           bucket's own sequence is the last number given out, which stays
//	           when the journal is empty
//	cursors    sink → sequence number
//	dead       a bucket per owner: key → class, reason and time as a line of JSON, then the body
//	deadsize   owner → number of its dead letters, bytes of their bodies
//
// The journal's keys carry what is summed up over the events, so that no lag is
// counted by reading events:
//
//	total      bytes of all events up to and with this one, since the journal was last empty
//	recorded   the latest RecordedTime up to and with this one, milliseconds since 1970
var (
	metaBucket      = []byte("meta")
	positionsBucket = []byte("positions")
	knownBucket     = []byte("known")
	forgetBucket    = []byte("forget")
	journalBucket   = []byte("journal")
	cursorsBucket   = []byte("cursors")
	deadBucket      = []byte("dead")
	deadSizeBucket  = []byte("deadsize")

	buckets = [][]byte{
		metaBucket, positionsBucket, knownBucket, forgetBucket,
		journalBucket, cursorsBucket, deadBucket, deadSizeBucket,
	}

	versionKey = []byte("version")
)

// layoutVersion is the number of the layout above.
const layoutVersion = 1

// appendFill is how full pages are made in buckets that grow at their end.
const appendFill = 0.95

// createLayout makes the buckets of a new file.
func createLayout(tx *bolt.Tx) error {
	for _, name := range buckets {
		if _, err := tx.CreateBucket(name); err != nil {
			return fmt.Errorf("bucket %s: %w", name, err)
		}
	}
	return tx.Bucket(metaBucket).Put(versionKey, strconv.AppendInt(nil, layoutVersion, 10))
}

// checkLayout tells whether the file is one of ours, of this version, and
// whether what lies in it fits together as far as a few look-ups show. The
// error is ErrNewer, or one that says what is damaged.
func checkLayout(tx *bolt.Tx) error {
	meta := tx.Bucket(metaBucket)
	if meta == nil || meta.Get(versionKey) == nil {
		return errors.New("this is a bbolt file, but not the state of ndrbridge")
	}
	version, err := strconv.Atoi(string(meta.Get(versionKey)))
	if err != nil || version < 1 {
		return fmt.Errorf("the layout version %.20q is no number of a version", meta.Get(versionKey))
	}
	if version > layoutVersion {
		return fmt.Errorf("%w (layout %d, this version reads up to %d)", ErrNewer, version, layoutVersion)
	}
	for _, name := range buckets {
		if tx.Bucket(name) == nil {
			return fmt.Errorf("the bucket %s is missing", name)
		}
	}
	return checkJournal(tx)
}

// checkJournal looks at the journal's keys, its first and last event, and the
// cursors into it.
func checkJournal(tx *bolt.Tx) error {
	events := tx.Bucket(journalBucket)
	var last mark
	err := events.ForEach(func(key, value []byte) error {
		m, err := parseMark(key)
		if err != nil {
			return err
		}
		first := last == mark{}
		if m.seq == 0 || !first && (m.seq != last.seq+1 || m.total != last.total+uint64(len(value)) || m.recorded < last.recorded) {
			return fmt.Errorf("event %d of the journal does not follow event %d", m.seq, last.seq)
		}
		if first || m.seq == events.Sequence() {
			if _, err := parseEvent(value); err != nil {
				return fmt.Errorf("event %d of the journal: %w", m.seq, err)
			}
		}
		last = m
		return nil
	})
	if err != nil {
		return err
	}
	if last.seq != 0 && last.seq != events.Sequence() {
		return fmt.Errorf("the journal ends with event %d, not with %d", last.seq, events.Sequence())
	}
	return tx.Bucket(cursorsBucket).ForEach(func(sink, value []byte) error {
		if len(value) != 8 || binary.BigEndian.Uint64(value) > events.Sequence() {
			return fmt.Errorf("the cursor of sink %.40q is ahead of the journal", sink)
		}
		return nil
	})
}

// mark is a journal key: an event's number and the sums up to it.
type mark struct {
	seq      uint64
	total    uint64
	recorded int64
}

const markSize = 24

func (m mark) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, m.seq)
	b = binary.BigEndian.AppendUint64(b, m.total)
	return binary.BigEndian.AppendUint64(b, uint64(m.recorded))
}

func parseMark(key []byte) (mark, error) {
	if len(key) != markSize {
		return mark{}, fmt.Errorf("a journal key of %d bytes", len(key))
	}
	return mark{
		seq:      binary.BigEndian.Uint64(key),
		total:    binary.BigEndian.Uint64(key[8:]),
		recorded: int64(binary.BigEndian.Uint64(key[16:])),
	}, nil
}

func appendUint64(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
