package checkpoint

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"ndrbridge/checkpoint/internal/boltfile"
)

// Dead returns an owner's dead letters in the order of their keys, after a key ("": from
// the first), at most limit.
func (s *Store) Dead(ctx context.Context, o Owner, after string, limit int) ([]DeadLetter, error) {
	var deadLetters []DeadLetter
	err := s.view(ctx, func(tx *bolt.Tx) error {
		dead := tx.Bucket(deadBucket).Bucket([]byte(o))
		if dead == nil {
			return nil
		}
		cursor := dead.Cursor()
		key, value := cursor.Seek([]byte(after))
		if after != "" && string(key) == after {
			key, value = cursor.Next()
		}
		for ; key != nil && len(deadLetters) < limit; key, value = cursor.Next() {
			deadLetter, err := decodeDead(key, value)
			if err != nil {
				return err
			}
			deadLetters = append(deadLetters, deadLetter)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("dead letters of %s: %w", o, err)
	}
	return deadLetters, nil
}

// DeadLetterOf returns the dead letter of an owner with a key; found is false if there is
// none.
func (s *Store) DeadLetterOf(ctx context.Context, o Owner, key string) (deadLetter DeadLetter, found bool, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		dead := tx.Bucket(deadBucket).Bucket([]byte(o))
		if dead == nil {
			return nil
		}
		value := dead.Get([]byte(key))
		if value == nil {
			return nil
		}
		deadLetter, err = decodeDead([]byte(key), value)
		found = err == nil
		return err
	})
	if err != nil {
		return DeadLetter{}, false, fmt.Errorf("dead letter %.40q of %s: %w", key, o, err)
	}
	return deadLetter, found, nil
}

// deadHead is the head of a stored dead letter, before its body.
type deadHead struct {
	Class  string    `json:"class"`
	Reason string    `json:"reason"`
	Time   time.Time `json:"time"`
}

func encodeDead(d DeadLetter) ([]byte, error) {
	head, err := json.Marshal(deadHead{d.Class, d.Reason, d.Time.UTC()})
	if err != nil {
		return nil, err
	}
	// JSON has no line break of its own, so the first one ends the head.
	return append(append(head, '\n'), d.Body...), nil
}

// decodeDead decodes a dead letter. The result shares no memory with value.
func decodeDead(key, value []byte) (DeadLetter, error) {
	h, body, err := splitDead(key, value)
	if err != nil {
		return DeadLetter{}, err
	}
	return DeadLetter{Key: string(key), Class: h.Class, Reason: h.Reason, Time: h.Time, Body: bytes.Clone(body)}, nil
}

// splitDead splits a stored dead letter into head and body. The body is a part of value.
func splitDead(key, value []byte) (h deadHead, body []byte, err error) {
	head, body, ok := bytes.Cut(value, []byte{'\n'})
	if !ok {
		return h, nil, fmt.Errorf("%w: dead letter %.40q: no head", ErrDamaged, key)
	}
	if err := json.Unmarshal(head, &h); err != nil {
		return h, nil, fmt.Errorf("%w: dead letter %.40q: %w", ErrDamaged, key, err)
	}
	return h, body, nil
}

func deadBody(value []byte) int64 {
	_, body, _ := bytes.Cut(value, []byte{'\n'})
	return int64(len(body))
}

func validateDead(deadLetters []DeadLetter) error {
	for _, d := range deadLetters {
		if d.Key == "" || len(d.Key) > maxKey {
			return fmt.Errorf("a dead letter with a key of %d bytes cannot be kept", len(d.Key))
		}
		if y := d.Time.UTC().Year(); y < 0 || y > 9999 {
			return errors.New("a dead letter's time cannot be encoded")
		}
	}
	return nil
}

// putDead writes an owner's dead letters and counts them.
func putDead(tx *boltfile.Tx, o Owner, deadLetters []DeadLetter) error {
	if len(deadLetters) == 0 {
		return nil
	}
	dead, err := tx.Table(deadBucket).Make([]byte(o))
	if err != nil {
		return fmt.Errorf("dead letters: %w", err)
	}
	size := decodeDeadStats(tx.Bucket(deadSizeBucket).Get([]byte(o)))
	for _, d := range deadLetters {
		if old := dead.Get([]byte(d.Key)); old != nil {
			size.Count--
			size.Bytes -= deadBody(old)
		}
		value, err := encodeDead(d)
		if err == nil {
			err = dead.Put([]byte(d.Key), value)
		}
		if err != nil {
			return fmt.Errorf("dead letter %.40q: %w", d.Key, err)
		}
		size.Count++
		size.Bytes += int64(len(d.Body))
	}
	return size.put(tx, o)
}

// deadSpace returns ErrDeadFull if a sink's dead letters would exceed its share.
func (r *writeRound) deadSpace(sink string, deadLetters []DeadLetter) error {
	share := r.limits.DeadShare(len(r.configured))
	if share == 0 || len(deadLetters) == 0 {
		return nil
	}
	o := SinkOwner(sink)
	now := decodeDeadStats(r.tx.Bucket(deadSizeBucket).Get([]byte(o))).Bytes
	dead := r.tx.Bucket(deadBucket).Bucket([]byte(o))
	then, added := now, make(map[string]int64, len(deadLetters))
	for _, d := range deadLetters {
		old, twice := added[d.Key]
		if !twice && dead != nil {
			old = deadBody(dead.Get([]byte(d.Key)))
		}
		added[d.Key] = int64(len(d.Body))
		then += int64(len(d.Body)) - old
	}
	if then > now && then > share {
		return fmt.Errorf("%w: %d bytes of them, and %d more, exceed the sink's share of %d", ErrDeadFull, now, then-now, share)
	}
	return nil
}

func (d DeadStats) put(tx *boltfile.Tx, o Owner) error {
	value := binary.BigEndian.AppendUint64(appendUint64(d.Count), uint64(d.Bytes))
	if d.Dropped > 0 {
		value = binary.BigEndian.AppendUint64(value, d.Dropped)
	}
	if err := tx.Table(deadSizeBucket).Put([]byte(o), value); err != nil {
		return fmt.Errorf("dead letters: %w", err)
	}
	return nil
}

func decodeDeadStats(value []byte) DeadStats {
	if len(value) != 16 && len(value) != 24 {
		return DeadStats{}
	}
	d := DeadStats{Count: binary.BigEndian.Uint64(value), Bytes: int64(binary.BigEndian.Uint64(value[8:]))}
	if len(value) == 24 {
		d.Dropped = binary.BigEndian.Uint64(value[16:])
	}
	return d
}
