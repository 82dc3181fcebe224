package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strconv"

	bolt "go.etcd.io/bbolt"

	"ndrbridge/checkpoint/internal/boltfile"
)

// The file is a bbolt database with these buckets. Integers are 64 bits,
// big-endian, so that keys sort by them.
//
//	meta       "version" → the number of this layout, in decimal. "closed" → the
//	           file's inode, in decimal, if it was closed cleanly and nothing was
//	           written since. "sum" → the sum of all entries of the other buckets.
//	           "clock" → corrections of recorded, 24 bytes each: the number of the last
//	           event that it applies to, by how much the clock was set forward, and when
//	           that was noticed, milliseconds since 1970 by the clock after it was set.
//	           "applied" → the offset of the last record of the log that the file
//	           holds, 0 if it holds none completely. "trail" → Point.Trail of that
//	           record. Only copies of a log have these two
//	positions  source → position
//	known      a bucket per source, and per sink that remembers something: key → At, value
//	forget     a bucket for each of those: At, key → nothing, once for every known entry.
//	           Earlier versions left one for each At that an entry had
//	journal    sequence number, total, recorded → event in structured form. The
//	           bucket's own sequence is the last number assigned, which is kept
//	           when the journal is empty
//	cursors    sink → sequence number
//	dead       a bucket per owner: key → class, reason and time as a line of JSON, then the body
//	deadsize   owner → number of its dead letters, bytes of their bodies, and unless it
//	           is 0, number of dead letters that gave way to newer ones
//	requeued   a bucket per sink: number of the item → length of its key (16 bits),
//	           key, event in structured form. The bucket's own sequence is the
//	           last number assigned, to items of replayed too
//	replayed   a bucket per sink: number of the item → first and last sequence
//	           number still to be redelivered
//	parked     a bucket per sink: number → storedHead as a line of JSON, then the event in
//	           structured form. The bucket's own sequence is the last number assigned
//	counts     sink → number of its requeued events, a number without a meaning, events
//	           skipped, and unless there are none, number of its parked events, bytes of them
//	paused     sink → since when, milliseconds since 1970
//
//	commands   ID → a command, in JSON. The bucket's own sequence is the last ID
//	           assigned
//	waiting    a bucket per appliance: ID of a pending command → nothing
//	subjects   subject of a command, a zero byte, ID → nothing. Commands without a
//	           subject are not here
//	done       when a command was done, milliseconds since 1970, ID → nothing
//	keys       key of a command → ID
//	commanded  "count" → number of pending commands, number of done commands
//
// Version 2 added the four from requeued to paused, and the sum; version 3 the buckets
// of commands; version 4 the corrections of recorded, without which it does not increase
// along the journal; version 5 parked.
//
// The journal's keys carry sums over the events, so that no lag is computed by reading
// events:
//
//	total      bytes of all events up to and including this one, since the journal was
//	           last empty
//	recorded   the latest RecordedTime up to and including this one, milliseconds since
//	           1970. It decreases only after a correction
var (
	positionsBucket = []byte("positions")
	knownBucket     = []byte("known")
	forgetBucket    = []byte("forget")
	journalBucket   = []byte("journal")
	cursorsBucket   = []byte("cursors")
	deadBucket      = []byte("dead")
	deadSizeBucket  = []byte("deadsize")
	requeuedBucket  = []byte("requeued")
	replayedBucket  = []byte("replayed")
	parkedBucket    = []byte("parked")
	countsBucket    = []byte("counts")
	pausedBucket    = []byte("paused")
	commandsBucket  = []byte("commands")
	waitingBucket   = []byte("waiting")
	subjectsBucket  = []byte("subjects")
	doneBucket      = []byte("done")
	keysBucket      = []byte("keys")
	commandedBucket = []byte("commanded")

	// buckets holds the buckets that each version added.
	buckets = [layoutVersion][][]byte{
		{
			boltfile.MetaBucket, positionsBucket, knownBucket, forgetBucket,
			journalBucket, cursorsBucket, deadBucket, deadSizeBucket,
		},
		{requeuedBucket, replayedBucket, countsBucket, pausedBucket},
		{commandsBucket, waitingBucket, subjectsBucket, doneBucket, keysBucket, commandedBucket},
		{},
		{parkedBucket},
	}

	versionKey = []byte("version")
	closedKey  = []byte("closed")
	clockKey   = []byte("clock")
	appliedKey = []byte("applied")
	trailKey   = []byte("trail")
)

// layoutVersion is the version of the layout above.
const layoutVersion = 5

// scheme makes records carry all entries, and the entries of meta that belong to them.
// They carry no changes of the layout, so records of all layouts since version 3 must make
// the same state in a file of this one.
var scheme = boltfile.Scheme{Layout: layoutVersion, Meta: [][]byte{clockKey}, Fill: fillOf}

// fillOf returns the fill ratio of a bucket's pages; 0: bbolt's own.
func fillOf(bucket []byte) float64 {
	switch string(bucket) {
	case string(journalBucket):
		return 1 // nothing is ever inserted between two events, and a page holds only a few of them
	case string(knownBucket):
		return 0.85 // new keys mostly come last, as increasing ids do, and values grow a little now and then
	case string(forgetBucket), string(requeuedBucket), string(parkedBucket), string(commandsBucket):
		return 0.95 // they grow at their ends
	}
	return 0
}

// createLayout creates the buckets of a new file.
func createLayout(tx *bolt.Tx) error { return raiseLayout(tx, 0) }

// raiseLayout migrates a file of an older version to this one; version 0 is an empty file.
func raiseLayout(tx *bolt.Tx, from int) error {
	for _, added := range buckets[from:] {
		for _, name := range added {
			if _, err := tx.CreateBucket(name); err != nil {
				return fmt.Errorf("bucket %s: %w", name, err)
			}
		}
	}
	if err := tx.Bucket(boltfile.MetaBucket).Put(versionKey, strconv.AppendInt(nil, layoutVersion, 10)); err != nil {
		return err
	}
	return boltfile.SumUp(tx)
}

// checkLayout returns the version of the layout, and an error unless the file is a state
// of this version or an older one, and its contents are consistent as far as a few lookups
// show. The error is ErrNewer, or names the damage.
func checkLayout(tx *bolt.Tx) (version int, err error) {
	if version, err = layoutOf(tx); err != nil {
		return 0, err
	}
	if version > layoutVersion {
		return 0, fmt.Errorf("%w (layout %d, this version reads up to %d)", ErrNewer, version, layoutVersion)
	}
	for _, added := range buckets[:version] {
		for _, name := range added {
			if tx.Bucket(name) == nil {
				return 0, fmt.Errorf("the bucket %s is missing", name)
			}
		}
	}
	return version, checkEnds(tx)
}

// layoutOf returns the version of a file's layout.
func layoutOf(tx *bolt.Tx) (int, error) {
	meta := tx.Bucket(boltfile.MetaBucket)
	if meta == nil || meta.Get(versionKey) == nil {
		return 0, errors.New("this is a bbolt file, but not the state of ndrbridge")
	}
	version, err := strconv.Atoi(string(meta.Get(versionKey)))
	if err != nil || version < 1 {
		return 0, fmt.Errorf("the layout version %.20q is not a version number", meta.Get(versionKey))
	}
	return version, nil
}

// checkEnds checks the journal's first and last event, and everything that refers into the
// journal.
func checkEnds(tx *bolt.Tx) error {
	events := tx.Bucket(journalBucket)
	cursor := events.Cursor()
	var last mark
	for _, end := range []func() (key, value []byte){cursor.First, cursor.Last} {
		key, value := end()
		if key == nil {
			break
		}
		m, err := parseMark(key)
		if err == nil {
			_, err = parseEvent(value)
		}
		if err != nil {
			return fmt.Errorf("event %d of the journal: %w", m.seq, err)
		}
		if m.seq == 0 || m.total < uint64(len(value)) {
			return fmt.Errorf("event %d of the journal has an impossible number or size", m.seq)
		}
		last = m
	}
	if last.seq != 0 && last.seq != events.Sequence() {
		return fmt.Errorf("the journal ends with event %d, not with %d", last.seq, events.Sequence())
	}
	err := tx.Bucket(cursorsBucket).ForEach(func(sink, value []byte) error {
		if len(value) != 8 || binary.BigEndian.Uint64(value) > events.Sequence() {
			return fmt.Errorf("the cursor of sink %.40q is ahead of the journal", sink)
		}
		return nil
	})
	if err != nil || tx.Bucket(replayedBucket) == nil {
		return err
	}
	return tx.Bucket(replayedBucket).ForEachBucket(func(sink []byte) error {
		return tx.Bucket(replayedBucket).Bucket(sink).ForEach(func(key, value []byte) error {
			item, err := parseReplayed(key, value)
			if err == nil && (item.first == 0 || item.first > item.last || item.last > events.Sequence()) {
				err = fmt.Errorf("events %d to %d are not in the journal", item.first, item.last)
			}
			if err != nil {
				return fmt.Errorf("redelivery queue of sink %.40q: %w", sink, err)
			}
			return nil
		})
	})
}

// encode encodes integers, one after the other.
func encode(ns ...uint64) []byte {
	b := make([]byte, 0, 8*len(ns))
	for _, n := range ns {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

// decode decodes up to five integers. Missing ones are 0.
func decode(b []byte) (ns [5]uint64) {
	for i := range ns {
		if len(b) >= 8*(i+1) {
			ns[i] = binary.BigEndian.Uint64(b[8*i:])
		}
	}
	return ns
}

// valueOf returns a value in one of the file's buckets, or nil. Files of an older version,
// opened read-only, do not have all buckets.
func valueOf(tx *bolt.Tx, bucket []byte, key string) []byte {
	return get(tx.Bucket(bucket), []byte(key))
}

// get returns a value of a bucket, which may be nil.
func get(b *bolt.Bucket, key []byte) []byte {
	if b == nil {
		return nil
	}
	return b.Get(key)
}

// walk yields the entries of a bucket, which may be nil, from a key on.
func walk(b *bolt.Bucket, from []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		if b == nil {
			return
		}
		cursor := b.Cursor()
		for key, value := cursor.Seek(from); key != nil && yield(key, value); {
			key, value = cursor.Next()
		}
	}
}

// behind returns the first key behind another one; "": the first of all.
func behind(key string) []byte { return []byte(key + "\x00") }

// inside returns a bucket nested in one of the file's buckets, or nil, as valueOf.
func inside(tx *bolt.Tx, bucket, name []byte) *bolt.Bucket {
	if outer := tx.Bucket(bucket); outer != nil {
		return outer.Bucket(name)
	}
	return nil
}
