package kafka

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ndrbridge/transform"
)

// The byte offsets of a record batch's fields (format v2: KIP-98 and Kafka's protocol
// guide).
const (
	afterLength   = 12 // the length counts the bytes from here
	atChecksum    = 17 // CRC-32C of the bytes after this field
	afterChecksum = 21
	batchHeader   = 61
)

// encoder encodes events into record batches, in buffers that it reuses. It is not
// safe for concurrent use.
type encoder struct {
	mode        transform.Mode
	compression compression
	codec       codec // nil: none
	maxBytes    int   // of a batch, compressed

	batches []byte // of the current request
	records []byte // of the current batch, to be compressed
	headers []byte // of the current record
}

// reset starts a new request and invalidates the batches of the previous one. It
// releases buffers that an unusually large event has grown.
func (e *encoder) reset() {
	e.batches = e.batches[:0]
	if cap(e.batches) > 4*e.maxBytes {
		e.batches = nil
	}
	if cap(e.records) > 4*e.maxBytes {
		e.records = nil
	}
}

// encode encodes as many of the events at indices as fit into a batch, from the
// first on, and returns the batch and their number. If that is 0, the first event
// is too large even alone, and the batch only shows its size. topicBytes is the
// topic's limit, or 0 if unknown; a single event may exceed it, because the limit
// may have been raised since, which the broker decides. now is the timestamp of
// events without a time.
func (e *encoder) encode(events []transform.Event, indices []int, topicBytes int, now time.Time) (batch []byte, count int) {
	kept := e.batches
	limit := e.maxBytes
	if topicBytes > 0 {
		limit = min(limit, topicBytes)
	}
	for n := len(indices); n > 0; n = count / 2 {
		e.batches = kept
		batch, count = e.attempt(events, indices[:n], limit, now)
		if size := len(batch); size <= limit || count == 1 && size <= e.maxBytes {
			return batch, count
		}
	}
	e.batches = kept
	return batch, 0
}

// attempt encodes a batch that may exceed limit. It assumes that compression at
// least halves the records; if not, encode tries again with fewer events.
func (e *encoder) attempt(events []transform.Event, indices []int, limit int, now time.Time) (batch []byte, count int) {
	start := len(e.batches)
	e.batches = append(e.batches, make([]byte, batchHeader)...)
	body := len(e.batches)
	var span span
	compression := e.compression
	if e.codec == nil {
		e.batches, span = e.appendRecords(e.batches, limit-batchHeader, events, indices, now)
	} else {
		e.records, span = e.appendRecords(e.records[:0], 2*limit, events, indices, now)
		compressed, err := e.codec.compress(e.batches, e.records)
		if err != nil || len(compressed)-body >= len(e.records) {
			compression = compressionNone
			compressed = append(e.batches[:body], e.records...)
		}
		e.batches = compressed
	}
	batch = e.batches[start:len(e.batches):len(e.batches)]
	seal(batch, compression, span)
	return batch, span.count
}

// span describes the records of a batch for its header.
type span struct {
	count       int
	first, last int64 // timestamps of the first record, and the latest of all, in milliseconds
}

// seal fills in the header of a batch.
func seal(b []byte, compression compression, s span) {
	header := kmsg.RecordBatch{
		Length: int32(len(b) - afterLength), PartitionLeaderEpoch: -1, // unknown to a producer
		Magic: 2, Attributes: int16(compression), LastOffsetDelta: int32(s.count - 1),
		FirstTimestamp: s.first, MaxTimestamp: s.last,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, // not idempotent
		NumRecords: int32(s.count),
	}
	header.AppendTo(b[:0])
	sum := crc32.Checksum(b[afterChecksum:], crc32.MakeTable(crc32.Castagnoli))
	binary.BigEndian.PutUint32(b[atChecksum:], sum)
}

// appendRecords appends the events' records up to limit bytes, but at least the
// first one.
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

// recordTime returns the record's timestamp: the time when the bridge recorded the
// event. The event's own time may be long past, and brokers that refuse or delete
// old records use the timestamp.
func recordTime(e transform.Event, now time.Time) time.Time {
	switch {
	case !e.RecordedTime.IsZero():
		return e.RecordedTime
	case !e.Time.IsZero():
		return e.Time
	}
	return now
}
