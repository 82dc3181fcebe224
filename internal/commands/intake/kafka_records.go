package intake

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"time"

	"github.com/klauspost/compress/snappy/xerial"
	"github.com/klauspost/compress/zstd"
	kafka "github.com/segmentio/kafka-go"
)

// maxRecords bounds the records of a batch, in bytes, both stored and decompressed.
const maxRecords = 4 << 20

var (
	errRecordsTooLarge = fmt.Errorf("the records of a batch exceed %d bytes", maxRecords)
	errMalformed       = errors.New("a record batch is malformed")
)

// Bits of a batch's attributes.
const (
	codecBits     = 7
	logAppendTime = 1 << 3
	controlBatch  = 1 << 5
)

// batchHeader begins a record batch of format v2 (KIP-98 and Kafka's protocol
// guide), in big endian.
type batchHeader struct {
	FirstOffset     int64
	Length          int32 // of the bytes from afterLength on
	LeaderEpoch     int32
	Magic           int8
	Checksum        uint32 // CRC-32C of the bytes from afterChecksum on
	Attributes      int16
	LastOffsetDelta int32
	FirstTime       int64 // in Unix milliseconds, like MaxTime
	MaxTime         int64
	ProducerID      int64
	ProducerEpoch   int16
	FirstSequence   int32
	Count           int32 // of the records
}

// Offsets in a batch.
const (
	afterLength   = 12
	afterChecksum = 21
	headerSize    = 61
)

// recordBatch is a record batch as a broker stores it. kafka-go's parsers of batches stop at one
// that compaction has emptied, and take as much memory as is announced.
type recordBatch struct {
	batchHeader
	last    int64 // offset; those before it may lack a record
	records []byte
}

// nextBatch returns the first batch in set and the bytes after it. If set is empty or
// the batch is cut off at its end, ok is false.
func nextBatch(set []byte) (b recordBatch, rest []byte, ok bool, err error) {
	if len(set) < headerSize {
		return b, nil, false, nil
	}
	_, _ = binary.Decode(set, binary.BigEndian, &b.batchHeader) // it is long enough
	size := afterLength + int64(b.Length)
	b.last = b.FirstOffset + int64(b.LastOffsetDelta)
	// The offset after the last one must be valid, too: the next fetch begins there.
	if b.Magic != 2 || size < headerSize || b.FirstOffset < 0 || b.LastOffsetDelta < 0 || b.last+1 < b.FirstOffset {
		return b, nil, false, errMalformed
	}
	if size > int64(len(set)) {
		return b, nil, false, nil
	}
	if crc32.Checksum(set[afterChecksum:size], crc32.MakeTable(crc32.Castagnoli)) != b.Checksum {
		return b, nil, false, errors.New("the checksum of a record batch is wrong")
	}
	b.records = set[headerSize:size]
	return b, set[size:], true, nil
}

// record is a record of a batch, or stands for all records of one that is too large to be read.
// Its bytes are valid until the next one is read.
type record struct {
	first, offset int64 // the same unless tooLarge is set
	tooLarge      bool
	time          time.Time
	value         []byte
	id            string // by the headers; empty: none
}

// all returns the records of b; a control batch has none. It ends after the first error.
func (b recordBatch) all() iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		if b.Attributes&controlBatch != 0 || b.Count == 0 {
			return
		}
		records, err := decompress(kafka.Compression(b.Attributes&codecBits), b.records)
		if errors.Is(err, errRecordsTooLarge) {
			yield(record{first: b.FirstOffset, offset: b.last, tooLarge: true, time: time.UnixMilli(b.MaxTime)}, nil)
			return
		}
		in := reader{b: records}
		for range b.Count {
			var r record
			if err == nil {
				r, err = in.record(b.batchHeader)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// decompress returns the records of a batch, errRecordsTooLarge if they take more than
// maxRecords. kafka-go has no bound for snappy and zstd.
func decompress(codec kafka.Compression, b []byte) (records []byte, err error) {
	switch {
	case len(b) > maxRecords:
		return nil, errRecordsTooLarge
	case codec == 0:
		return b, nil
	case codec == kafka.Snappy: // no byte stands for more than 32
		records, err = xerial.DecodeCapped(make([]byte, 0, min(32*len(b), maxRecords)), b)
	case codec == kafka.Zstd:
		var in *zstd.Decoder
		in, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxRecords), zstd.WithDecoderMaxWindow(maxRecords))
		if err == nil {
			records, err = in.DecodeAll(b, nil)
			in.Close()
		}
	case codec.Codec() == nil:
		return nil, fmt.Errorf("a record batch is compressed with the unknown codec %d", codec)
	default:
		in := codec.Codec().NewReader(bytes.NewReader(b))
		records, err = io.ReadAll(io.LimitReader(in, maxRecords+1))
		in.Close()
	}
	if len(records) > maxRecords || errors.Is(err, xerial.ErrDstTooSmall) || errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
		return nil, errRecordsTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("the records of a batch cannot be decompressed: %w", err)
	}
	return records, nil
}

// reader reads the fields of records. Beyond the end, it returns zeros and sets bad.
type reader struct {
	b   []byte
	bad bool
}

// varint reads a zigzag varint.
func (in *reader) varint() int64 {
	v, n := binary.Varint(in.b)
	if n <= 0 {
		in.b, in.bad = nil, true
		return 0
	}
	in.b = in.b[n:]
	return v
}

// bytes reads n bytes; none if n is -1.
func (in *reader) bytes(n int64) []byte {
	if n == -1 {
		return nil
	}
	if n < 0 || n > int64(len(in.b)) {
		in.b, in.bad = nil, true
		return nil
	}
	b := in.b[:n:n]
	in.b = in.b[n:]
	return b
}

// record reads a record of a batch.
func (in *reader) record(batch batchHeader) (r record, err error) {
	one := reader{b: in.bytes(in.varint())}
	one.bytes(1) // attributes: unused
	r.time = time.UnixMilli(batch.FirstTime + one.varint())
	if batch.Attributes&logAppendTime != 0 {
		r.time = time.UnixMilli(batch.MaxTime)
	}
	since := one.varint()
	r.offset = batch.FirstOffset + since
	r.first = r.offset
	one.bytes(one.varint()) // the key
	r.value = one.bytes(one.varint())
	ids := map[string]string{}
	for range one.varint() {
		name, value := one.bytes(one.varint()), one.bytes(one.varint())
		if one.bad {
			break
		}
		if string(name) == keyHeader || string(name) == idHeader {
			ids[string(name)] = string(value)
		}
	}
	if r.id = ids[keyHeader]; r.id == "" {
		r.id = ids[idHeader]
	}
	if in.bad || one.bad || since < 0 || since > int64(batch.LastOffsetDelta) {
		return r, errMalformed
	}
	return r, nil
}
