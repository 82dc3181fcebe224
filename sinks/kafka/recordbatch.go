package kafka

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"ndrbridge/transform"
)

// Where the fields of a record batch lie (format v2: KIP-98 and Kafka's protocol
// guide).
const (
	atLength       = 8  // of what follows that field
	atLeaderEpoch  = 12 // -1: unknown to a producer
	atMagic        = 16
	atChecksum     = 17 // CRC-32C of what follows that field
	atAttributes   = 21
	atLastOffset   = 23 // relative to the base offset, which the broker sets
	atBaseTime     = 27 // milliseconds, of the first record
	atMaxTime      = 35
	atProducer     = 43 // id, epoch, sequence; -1: not idempotent
	atCount        = 57
	batchHeader    = 61
	magicOfFormat2 = 2
)

// encoder makes record batches of events, in memory that it uses again. It is
// not safe for concurrent use.
type encoder struct {
	mode        transform.Mode
	compression compression
	codec       codec // nil: none
	maxBytes    int   // of a batch, compressed: more is never sent

	batches []byte // of the request under way
	records []byte // of the batch under way, to be compressed
	headers []byte // of the record under way
}

// reset begins a request: batches that were made before are valid no longer.
// What an unusually large event took is given back.
func (e *encoder) reset() {
	e.batches = e.batches[:0]
	if cap(e.batches) > 4*e.maxBytes {
		e.batches = nil
	}
	if cap(e.records) > 4*e.maxBytes {
		e.records = nil
	}
}

// encode makes a batch of those of the indices' events
// that fit into it, from the first on, and returns how many these are. 0: the
// first is too large even alone, and the batch, which is not to be sent, says
// how large. now is the time of events that have none. topicBytes is what the
// topic takes, or 0; one event alone may exceed it, since the topic's settings may
// have changed, and the broker knows.
func (e *encoder) encode(events []transform.Event, indices []int, topicBytes int, now time.Time) (batch []byte, taken int) {
	kept := e.batches
	most := e.maxBytes
	if topicBytes > 0 {
		most = min(most, topicBytes)
	}
	for limit := len(indices); limit > 0; limit = taken / 2 {
		e.batches = kept
		batch, taken = e.attempt(events, indices[:limit], most, now)
		if size := len(batch); size <= most || taken == 1 && size <= e.maxBytes {
			return batch, taken
		}
	}
	e.batches = kept
	return batch, 0
}

// attempt makes a batch that may turn out too large. Compressed, it is taken to
// halve at least: else encode tries again with fewer events.
func (e *encoder) attempt(events []transform.Event, indices []int, most int, now time.Time) (batch []byte, taken int) {
	start := len(e.batches)
	e.batches = append(e.batches, make([]byte, batchHeader)...)
	body := len(e.batches)
	var span span
	compression := e.compression
	if e.codec == nil {
		e.batches, span = e.appendRecords(e.batches, most-batchHeader, events, indices, now)
	} else {
		e.records, span = e.appendRecords(e.records[:0], 2*most, events, indices, now)
		compressed, err := e.codec.compress(e.batches, e.records)
		if err != nil || len(compressed)-body >= len(e.records) {
			compression = uncompressed
			compressed = append(e.batches[:body], e.records...)
		}
		e.batches = compressed
	}
	batch = e.batches[start:len(e.batches):len(e.batches)]
	seal(batch, compression, span)
	return batch, span.count
}

// span is what a batch's header tells of its records.
type span struct {
	count       int
	first, last int64 // times in milliseconds: of the first record, and the latest of all
}

// seal fills in the header of a batch.
func seal(b []byte, compression compression, s span) {
	const unknown = ^uint64(0)       // -1
	binary.BigEndian.PutUint64(b, 0) // base offset
	binary.BigEndian.PutUint32(b[atLength:], uint32(len(b)-atLeaderEpoch))
	binary.BigEndian.PutUint32(b[atLeaderEpoch:], uint32(unknown&0xffffffff))
	b[atMagic] = magicOfFormat2
	binary.BigEndian.PutUint16(b[atAttributes:], uint16(compression))
	binary.BigEndian.PutUint32(b[atLastOffset:], uint32(s.count-1))
	binary.BigEndian.PutUint64(b[atBaseTime:], uint64(s.first))
	binary.BigEndian.PutUint64(b[atMaxTime:], uint64(s.last))
	for i := atProducer; i < atCount; i++ {
		b[i] = 0xff
	}
	binary.BigEndian.PutUint32(b[atCount:], uint32(s.count))
	binary.BigEndian.PutUint32(b[atChecksum:], crc32.Checksum(b[atAttributes:], crc32.MakeTable(crc32.Castagnoli)))
}

// appendRecords appends the events' records while they take no more than limit
// bytes, and the first in any case.
func (e *encoder) appendRecords(dst []byte, limit int, events []transform.Event, indices []int, now time.Time) ([]byte, span) {
	var s span
	start := len(dst)
	for n, i := range indices {
		at := recordTime(events[i], now).UnixMilli()
		if n == 0 {
			s.first, s.last = at, at
		}
		end := len(dst)
		dst = e.appendRecord(dst, events[i], at-s.first, int64(n))
		if n > 0 && len(dst)-start > limit {
			return dst[:end], s
		}
		s.count, s.last = n+1, max(s.last, at)
	}
	return dst, s
}

// recordTime is the record's timestamp: when the bridge saw the event. An event's
// own time may lie far back, and a broker that is told to refuse or to delete old
// records goes by the timestamp.
func recordTime(e transform.Event, now time.Time) time.Time {
	switch {
	case !e.RecordedTime.IsZero():
		return e.RecordedTime
	case !e.Time.IsZero():
		return e.Time
	}
	return now
}
