package kafka

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"math/bits"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	kafka "github.com/segmentio/kafka-go"

	"ndrbridge/internal/kafkaconn"
	"ndrbridge/transform"
)

// encoder encodes events into record batches of format v2, in buffers that it reuses. It takes
// the events' bytes as they are, where kafka-go would copy each several times. It is not safe
// for concurrent use.
type encoder struct {
	mode        transform.Mode
	compression kafka.Compression
	codec       codec // nil: none
	maxBytes    int   // of a batch, compressed

	batches []byte // of the current request
	records []byte // of the current batch, to be compressed
	headers []byte // of the current record
}

// codec appends the compressed form of src to dst.
type codec func(dst, src []byte) ([]byte, error)

// zstdWindow is the size of zstd's window. Detections resemble their neighbours, so
// that a larger one, such as kafka-go's, costs memory and time and saves almost nothing.
const zstdWindow = 256 << 10

// newCodec returns the codec of c, nil for none.
func newCodec(c kafka.Compression) codec {
	switch c {
	case 0:
		return nil
	case kafka.Zstd:
		encoder, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithWindowSize(zstdWindow), zstd.WithEncoderCRC(false)) // the options are valid
		return func(dst, src []byte) ([]byte, error) { return encoder.EncodeAll(src, dst), nil }
	case kafka.Lz4:
		// The Java client requires independent blocks; smaller ones cost more bytes
		// than they save time. The batch has a checksum of its own.
		stream := lz4.NewWriter(nil)
		_ = stream.Apply(lz4.BlockSizeOption(lz4.Block256Kb), lz4.ChecksumOption(false), lz4.ConcurrencyOption(1)) // they are valid
		return streamCodec(func(out io.Writer) io.WriteCloser {
			stream.Reset(out)
			return stream
		})
	}
	return streamCodec(c.Codec().NewWriter)
}

// streamCodec returns the codec of a stream compressor.
func streamCodec(open func(io.Writer) io.WriteCloser) codec {
	return func(dst, src []byte) ([]byte, error) {
		out := appender(dst)
		stream := open(&out)
		if _, err := stream.Write(src); err != nil {
			return nil, err
		}
		err := stream.Close()
		return out, err
	}
}

type appender []byte

// Write implements io.Writer.
func (a *appender) Write(b []byte) (int, error) {
	*a = append(*a, b...)
	return len(b), nil
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
	e.batches = append(e.batches, make([]byte, kafkaconn.BatchHeaderSize)...)
	body := len(e.batches)
	header := kafkaconn.BatchHeader{
		LeaderEpoch: -1, Magic: kafkaconn.Magic, // unknown to a producer
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, // not idempotent
	}
	if e.codec == nil {
		e.batches = e.appendRecords(e.batches, &header, limit-kafkaconn.BatchHeaderSize, events, indices, now)
	} else {
		e.records = e.appendRecords(e.records[:0], &header, 2*limit, events, indices, now)
		compressed, err := e.codec(e.batches, e.records)
		header.Attributes = int16(e.compression)
		if err != nil || len(compressed)-body >= len(e.records) {
			header.Attributes = 0
			compressed = append(e.batches[:body], e.records...)
		}
		e.batches = compressed
	}
	batch = e.batches[start:len(e.batches):len(e.batches)]
	header.Length, header.LastOffsetDelta = int32(len(batch)-kafkaconn.AfterLength), header.Count-1
	_, _ = binary.Encode(batch, binary.BigEndian, header) // it has space
	sum := crc32.Checksum(batch[kafkaconn.AfterChecksum:], kafkaconn.Castagnoli)
	binary.BigEndian.PutUint32(batch[kafkaconn.AfterChecksum-4:], sum)
	return batch, int(header.Count)
}

// appendRecords appends the events' records up to limit bytes, but at least the
// first one. It sets the fields of the batch's header that depend on them.
func (e *encoder) appendRecords(dst []byte, header *kafkaconn.BatchHeader, limit int, events []transform.Event, indices []int, now time.Time) []byte {
	start := len(dst)
	for n, i := range indices {
		at := recordTime(events[i], now).UnixMilli()
		if n == 0 {
			header.FirstTime, header.MaxTime = at, at
		}
		end := len(dst)
		dst = e.appendRecord(dst, events[i], at-header.FirstTime, int64(n))
		if n > 0 && len(dst)-start > limit {
			return dst[:end]
		}
		header.Count, header.MaxTime = int32(n+1), max(header.MaxTime, at)
	}
	return dst
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

// appendRecord appends an event's record, whose integers are zigzag varints. time (in
// milliseconds) and offset are relative to the batch's.
func (e *encoder) appendRecord(dst []byte, event transform.Event, time, offset int64) []byte {
	count, value := e.encodeHeaders(event)
	keySize := int64(len(event.PartitionKey))
	if keySize == 0 {
		keySize = -1 // no key
	}
	length := 1 + varintSize(time) + varintSize(offset) +
		varintSize(keySize) + len(event.PartitionKey) +
		varintSize(int64(len(value))) + len(value) +
		varintSize(count) + len(e.headers)

	dst = binary.AppendVarint(dst, int64(length))
	dst = append(dst, 0) // attributes: unused
	dst = binary.AppendVarint(dst, time)
	dst = binary.AppendVarint(dst, offset)
	dst = binary.AppendVarint(dst, keySize)
	dst = append(dst, event.PartitionKey...)
	dst = appendSized(dst, value)
	dst = binary.AppendVarint(dst, count)
	return append(dst, e.headers...)
}

// encodeHeaders encodes the record's headers into e.headers and returns their
// number and the record's value.
func (e *encoder) encodeHeaders(event transform.Event) (count int64, value []byte) {
	e.headers = e.headers[:0]
	contentType, value := event.ContentType(), event.Payload()
	if e.mode == transform.Binary {
		contentType, value = transform.ContentTypeData, event.Data()
		for name, value := range event.Headers() {
			e.headers = appendSized(e.headers, "ce_"+name)
			e.headers = appendSized(e.headers, value)
			count++
		}
	}
	e.headers = appendSized(e.headers, "content-type")
	e.headers = appendSized(e.headers, contentType)
	return count + 1, value
}

// appendSized appends b, prefixed with its length.
func appendSized[T string | []byte](dst []byte, b T) []byte {
	return append(binary.AppendVarint(dst, int64(len(b))), b...)
}

// varintSize returns the number of bytes that binary.AppendVarint appends for n.
func varintSize(n int64) int {
	zigzag := uint64(n)<<1 ^ uint64(n>>63)
	return (bits.Len64(zigzag|1) + 6) / 7
}
