package kafka

import (
	"bytes"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/segmentio/kafka-go/compress"
	"github.com/segmentio/kafka-go/protocol"

	"ndrbridge/transform"
)

// encoder encodes events into record batches, in buffers that it reuses. It is not safe for
// concurrent use.
type encoder struct {
	mode     transform.Mode
	codec    protocol.Attributes // 0: none
	maxBytes int                 // of a batch, compressed

	// Of the current request:
	sets    bytes.Buffer // batches, each behind its size
	records []protocol.Record
	headers []protocol.Header
}

const (
	// sizeSize is the number of bytes in front of a batch.
	sizeSize = 4
	// maxBatchHead bounds the bytes of a batch besides its records.
	maxBatchHead = 61
	// maxRecordHead bounds the bytes of a record besides its key, value and headers.
	maxRecordHead = 40
)

// reset starts a new request and invalidates the batches of the previous one. It
// releases a buffer that an unusually large event has grown.
func (e *encoder) reset() {
	clear(e.records)
	clear(e.headers)
	e.records, e.headers = e.records[:0], e.headers[:0]
	e.sets.Reset()
	if e.sets.Cap() > 4*e.maxBytes {
		e.sets = bytes.Buffer{}
	}
}

// encode encodes as many of the events at indices as fit into a batch, from the first on, and
// returns the batch behind its size, and their number. If that is 0, the first event is too
// large even alone, by the size of batch.
func (e *encoder) encode(events []transform.Event, indices []int) (batch []byte, count int) {
	start := e.sets.Len()
	for n := len(indices); n > 0; n = count / 2 {
		e.sets.Truncate(start)
		count = e.attempt(events, indices[:n])
		if batch = e.sets.Bytes()[start:]; len(batch)-sizeSize <= e.maxBytes {
			return batch, count
		}
	}
	e.sets.Truncate(start)
	return batch, 0
}

// attempt appends a batch that may exceed maxBytes to sets, and returns the number of its
// events. It assumes that compression at least halves the records; if not, encode tries again
// with fewer events.
func (e *encoder) attempt(events []transform.Event, indices []int) (count int) {
	first, size, most := len(e.records), maxBatchHead, e.maxBytes
	if e.codec != 0 {
		most = 2 * e.maxBytes
	}
	for _, i := range indices {
		record, more := e.record(events[i])
		if size += more; size > most && count > 0 {
			break
		}
		e.records = append(e.records, record)
		count++
	}
	set := protocol.RecordSet{Version: 2, Attributes: e.codec, Records: protocol.NewRecordReader(e.records[first:]...)}
	_, _ = set.WriteTo(&e.sets) // to memory
	return count
}

// record returns an event's record and a bound of its size. The record's time is when the bridge
// recorded the event: the event's own time may be long past, and brokers that refuse or delete
// old records use the record's.
func (e *encoder) record(event transform.Event) (r protocol.Record, size int) {
	if r.Time = event.RecordedTime; r.Time.IsZero() {
		r.Time = event.Time
	}
	if event.PartitionKey != "" {
		r.Key = protocol.NewBytes([]byte(event.PartitionKey))
	}
	contentType, value, first := event.ContentType(), event.Payload(), len(e.headers)
	if e.mode == transform.Binary {
		contentType, value = transform.ContentTypeData, event.Data()
		for name, value := range event.Headers() {
			e.headers = append(e.headers, protocol.Header{Key: "ce_" + name, Value: []byte(value)})
		}
	}
	e.headers = append(e.headers, protocol.Header{Key: "content-type", Value: []byte(contentType)})
	r.Headers, r.Value = e.headers[first:], protocol.NewBytes(value)
	for _, h := range r.Headers {
		size += len(h.Key) + len(h.Value) + 2*sizeSize
	}
	return r, size + len(event.PartitionKey) + len(value) + maxRecordHead
}

// codec is a codec of kafka-go whose writers have other options.
type codec struct {
	compress.Codec
	writers sync.Pool // of resetter
}

type resetter interface {
	io.WriteCloser
	Reset(io.Writer)
}

// init makes the memory of compression small: detections resemble their neighbours, so that
// zstd's window of 8 MiB and lz4's blocks of 4 MiB cost memory and time and save almost nothing. A
// batch has a checksum of its own.
func init() {
	compress.Codecs[compress.Zstd] = &codec{Codec: compress.Codecs[compress.Zstd], writers: sync.Pool{New: func() any {
		z, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithWindowSize(256<<10), zstd.WithEncoderCRC(false)) // the options are valid
		return z
	}}}
	compress.Codecs[compress.Lz4] = &codec{Codec: compress.Codecs[compress.Lz4], writers: sync.Pool{New: func() any {
		z := lz4.NewWriter(nil)
		_ = z.Apply(lz4.BlockSizeOption(lz4.Block256Kb), lz4.ChecksumOption(false)) // they are valid
		return z
	}}}
}

// NewWriter implements compress.Codec.
func (c *codec) NewWriter(w io.Writer) io.WriteCloser {
	z := c.writers.Get().(resetter)
	z.Reset(w)
	return &writer{z, &c.writers}
}

// writer returns to its pool when it is closed.
type writer struct {
	resetter
	pool *sync.Pool
}

// Close implements io.Closer.
func (w *writer) Close() error {
	defer w.pool.Put(w.resetter)
	return w.resetter.Close()
}
