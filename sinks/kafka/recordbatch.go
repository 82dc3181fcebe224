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
	var header kmsg.RecordBatch
	compression := e.compression
	if e.codec == nil {
		e.batches, header = e.appendRecords(e.batches, limit-batchHeader, events, indices, now)
	} else {
		e.records, header = e.appendRecords(e.records[:0], 2*limit, events, indices, now)
		compressed, err := e.codec(e.batches, e.records)
		if err != nil || len(compressed)-body >= len(e.records) {
			compression = compressionNone
			compressed = append(e.batches[:body], e.records...)
		}
		e.batches = compressed
	}
	batch = e.batches[start:len(e.batches):len(e.batches)]
	seal(batch, compression, header)
	return batch, int(header.NumRecords)
}

// seal fills in the header of a batch. header has the number and the times of the
// records.
func seal(b []byte, compression compression, header kmsg.RecordBatch) {
	header.Length, header.Magic, header.Attributes = int32(len(b)-afterLength), 2, int16(compression)
	header.LastOffsetDelta = header.NumRecords - 1
	header.PartitionLeaderEpoch = -1                                           // unknown to a producer
	header.ProducerID, header.ProducerEpoch, header.FirstSequence = -1, -1, -1 // not idempotent
	header.AppendTo(b[:0])
	sum := crc32.Checksum(b[afterChecksum:], crc32.MakeTable(crc32.Castagnoli))
	binary.BigEndian.PutUint32(b[atChecksum:], sum)
}

// appendRecords appends the events' records up to limit bytes, but at least the
// first one. It returns the fields of the batch's header that depend on them.
func (e *encoder) appendRecords(dst []byte, limit int, events []transform.Event, indices []int, now time.Time) ([]byte, kmsg.RecordBatch) {
	var header kmsg.RecordBatch
	start := len(dst)
	for n, i := range indices {
		at := recordTime(events[i], now).UnixMilli()
		if n == 0 {
			header.FirstTimestamp, header.MaxTimestamp = at, at
		}
		end := len(dst)
		dst = e.appendRecord(dst, events[i], at-header.FirstTimestamp, int64(n))
		if n > 0 && len(dst)-start > limit {
			return dst[:end], header
		}
		header.NumRecords, header.MaxTimestamp = int32(n+1), max(header.MaxTimestamp, at)
	}
	return dst, header
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
