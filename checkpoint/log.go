package checkpoint

import (
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"ndrbridge/checkpoint/internal/boltfile"
)

var (
	// ErrNotOwner is returned if the log belongs to another process. The record is not in it.
	ErrNotOwner = errors.New("another process owns the log")
	// ErrRecord is returned if a record does not lead from the state that a replica has, or
	// cannot be read.
	ErrRecord = boltfile.ErrRecord
)

// Log is a replicated log of the changes to a state. A store writes every transaction to it,
// as a record, before it commits the transaction to its file: the log is durable,
// and the file is a copy that is never ahead of it. A Replica makes the same state out of
// the records.
//
// Append is called from one goroutine at a time.
type Log interface {
	// Append makes a record durable behind all earlier ones, and returns where it is; offsets
	// increase. It keeps record only until it returns. As long as it does not know whether the
	// log has the record, it keeps trying. ErrNotOwner means that another process owns the log,
	// which does not have the record. After any other error it is not known whether the log has
	// it. After an error nothing may be appended. An empty record changes nothing, and renews
	// the ownership.
	Append(record []byte) (at Point, err error)
}

// Point is a point of a log.
type Point struct {
	Offset uint64 // of the record before it; 0: none was appended
	// Trail identifies the record, since a log that lost its end may use an offset again. A copy
	// only keeps it.
	Trail string
}

// What records are written in. A replica applies records of lower numbers too, and returns
// ErrNewer for higher ones.
const (
	RecordFormat = boltfile.RecordFormat
	Layout       = layoutVersion // of the state
)

// MaxRecord is how large a record may be, in bytes. The largest is that of a Rename, which
// holds all dead letters of the sink. A store refuses changes that make a larger one.
const MaxRecord = 512 << 20

// storeLog is a store's log. Only the writer uses it while the store is open.
type storeLog struct {
	log        Log // nil: there is none
	recorder   boltfile.Recorder
	at         Point         // of the last record appended
	renewEvery time.Duration // 0: never
	renewal    *time.Timer   // fires when a record is due, and at once after opening, which took its time
	maxRecord  int
}

// append appends a record to the log. It fails the store if the log does not take it.
func (s *Store) append(record []byte) error {
	at, err := s.log.Append(record)
	switch {
	case errors.Is(err, ErrNotOwner):
		return s.fail(fmt.Errorf("append to the log of %s: %w", s.path, err))
	case err != nil:
		return s.fail(fmt.Errorf("append to the log of %s: it is not known whether the log has the last write: %w", s.path, err))
	}
	s.at = at
	if s.renewEvery > 0 {
		s.renewal.Reset(s.renewEvery)
	}
	return nil
}

// appendRecord appends the record of a round to the log, as the last step before the round
// is committed.
func (s *Store) appendRecord(r *writeRound) error {
	record := r.tx.Recorded()
	if len(record) > s.maxRecord {
		return fmt.Errorf("the change has %d bytes, and the log takes %d at once", len(record), s.maxRecord)
	}
	if err := s.append(record); err != nil {
		return err
	}
	r.logged = true
	return putApplied(r.tx.Tx, s.at)
}

// behindLog fails the store if the log has a round that was not committed.
func (s *Store) behindLog(r *writeRound, err error) error {
	if !r.logged {
		return err
	}
	return s.fail(fmt.Errorf("write to %s, which is behind its log now: %w", s.path, err))
}

// renew appends an empty record.
func (s *Store) renew() {
	if s.Err() == nil {
		_ = s.append(nil) // Err returns it
	}
}

// appliedOf returns the offset of the last record that a file holds; copied is false if the
// file is not a copy of a log.
func appliedOf(tx *bolt.Tx) (offset uint64, copied bool) {
	value := tx.Bucket(boltfile.MetaBucket).Get(appliedKey)
	return decode(value)[0], value != nil
}

// errIncomplete means that only some records of a dump were applied to a file.
var errIncomplete = errors.New("it was not restored completely")

// incomplete reports whether a file is a copy of a log that was not restored completely.
func incomplete(tx *bolt.Tx) bool {
	offset, copied := appliedOf(tx)
	sum, _ := boltfile.Sum(tx)
	return copied && offset == 0 && sum != 0
}

// appliedAt returns the point of the log up to which a file holds it.
func appliedAt(tx *bolt.Tx) Point {
	offset, _ := appliedOf(tx)
	return Point{Offset: offset, Trail: string(tx.Bucket(boltfile.MetaBucket).Get(trailKey))}
}

func putApplied(tx *bolt.Tx, at Point) error {
	meta := tx.Bucket(boltfile.MetaBucket)
	err := errors.Join(meta.Put(appliedKey, encode(at.Offset)), meta.Put(trailKey, []byte(at.Trail)))
	return wrapf(err, "offset of the last record")
}
