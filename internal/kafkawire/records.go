package kafkawire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxRecords bounds the records of a batch, in bytes, both stored and decompressed.
const maxRecords = 4 << 20

// ErrRecordsTooLarge is returned if the records of a batch exceed maxRecords.
var ErrRecordsTooLarge = fmt.Errorf("the records of a batch exceed %d bytes", maxRecords)

// The byte offsets of a record batch's fields (format v2: KIP-98 and Kafka's protocol
// guide), and bits of its attributes.
const (
	afterLength  = 12 // the length counts the bytes from here
	atMagic      = 16
	atAttributes = 21 // the checksum, CRC-32C, is that of the bytes from here
	batchHeader  = 61

	codecBits     = 7
	logAppendTime = 1 << 3
	controlBatch  = 1 << 5
)

// Batch is a record batch as a broker stores it.
type Batch struct {
	First, Last int64 // offsets; those between them may lack a record
	raw         kmsg.RecordBatch
	tooLarge    bool // raw has no records
}

// NextBatch returns the first batch in set and the bytes after it. If set is empty or
// the batch is cut off at its end, ok is false. Of a batch that is too large, only the
// header is read, without verifying the checksum, and rest is empty.
func NextBatch(set []byte) (b Batch, rest []byte, ok bool, err error) {
	if len(set) <= atMagic {
		return Batch{}, nil, false, nil
	}
	if magic := set[atMagic]; magic != 2 {
		return Batch{}, nil, false, fmt.Errorf("its records are in format %d, that of brokers before Kafka 0.11", magic)
	}
	var raw kmsg.RecordBatch
	_ = raw.ReadFrom(set) // it fails if set ends before the batch does
	size := afterLength + int64(raw.Length)
	if size < batchHeader || size > maxWholeFetch {
		return Batch{}, nil, false, foreign("it announces a record batch of %d bytes", raw.Length)
	}
	tooLarge := size > batchHeader+maxRecords
	if tooLarge {
		size = batchHeader
	}
	if size > int64(len(set)) {
		return Batch{}, nil, false, nil
	}
	if sum := crc32.Checksum(set[atAttributes:size], crc32.MakeTable(crc32.Castagnoli)); !tooLarge && sum != uint32(raw.CRC) {
		return Batch{}, nil, false, foreign("the checksum of a record batch is wrong")
	}
	first, delta := raw.FirstOffset, int64(raw.LastOffsetDelta)
	// The offset after the last one must be valid, too: the next fetch begins there.
	if first < 0 || delta < 0 || first+delta+1 < first {
		return Batch{}, nil, false, foreign("a record batch begins at offset %d and ends %d after it", first, delta)
	}
	b = Batch{First: first, Last: first + delta, raw: raw, tooLarge: tooLarge}
	if !tooLarge {
		return b, set[size:], true, nil
	}
	if count := int64(raw.NumRecords); count < 1 || count > delta+1 {
		return Batch{}, nil, false, foreign("a record batch of %d bytes has %d records from offset %d to %d", raw.Length, count, b.First, b.Last)
	}
	return b, nil, true, nil
}

// Time returns the time of the latest record.
func (b Batch) Time() time.Time { return time.UnixMilli(b.raw.MaxTimestamp) }

// Record is a record of a batch. Its bytes are valid until the next one is read.
type Record struct {
	Offset  int64
	Time    time.Time
	Value   []byte
	headers []byte
	count   int64
}

// Header returns the value of the last header with a name, "" if there is none.
func (r Record) Header(name string) (value string) {
	in := reader{b: r.headers}
	for range r.count {
		if key, v := in.sized(), in.sized(); string(key) == name {
			value = string(v)
		}
	}
	return value
}

// Records returns the records of b; a control batch has none. It ends after the first
// error, which is ErrRecordsTooLarge if they exceed maxRecords.
func (b Batch) Records() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		if b.tooLarge {
			yield(Record{}, ErrRecordsTooLarge)
			return
		}
		if b.raw.Attributes&controlBatch != 0 {
			return
		}
		records, err := decompress(b.raw.Attributes&codecBits, b.raw.Records)
		if err != nil {
			yield(Record{}, err)
			return
		}
		in := reader{b: records}
		for range b.raw.NumRecords {
			r, since, err := in.record()
			r.Offset += b.First
			if err == nil && (r.Offset < b.First || r.Offset > b.Last) {
				err = foreign("a record has the offset %d in a batch from %d to %d", r.Offset, b.First, b.Last)
			}
			if r.Time = time.UnixMilli(b.raw.FirstTimestamp + since); b.raw.Attributes&logAppendTime != 0 {
				r.Time = b.Time()
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
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

// take reads n bytes.
func (in *reader) take(n int64) []byte {
	if n < 0 || n > int64(len(in.b)) {
		in.b, in.bad = nil, true
		return nil
	}
	b := in.b[:n:n]
	in.b = in.b[n:]
	return b
}

// sized reads bytes that are prefixed with their length; nil if that is -1.
func (in *reader) sized() []byte {
	if n := in.varint(); n >= 0 {
		return in.take(n)
	}
	return nil
}

// record reads a record, whose offset and time are relative to its batch.
func (in *reader) record() (r Record, since int64, err error) {
	one := reader{b: in.take(in.varint())}
	one.take(1) // attributes: unused
	since, r.Offset = one.varint(), one.varint()
	one.sized() // the key
	r.Value = one.sized()
	r.count = one.varint()
	r.headers = one.b
	// A header takes at least two bytes.
	if r.count < 0 || r.count > int64(len(r.headers)/2) {
		one.bad = true
		r.count = 0
	}
	for range r.count {
		one.sized()
		one.sized()
	}
	if in.bad || one.bad {
		return Record{}, 0, foreign("a record is malformed")
	}
	return r, since, nil
}

// The values of the codec in the attributes of a batch.
const (
	codecNone = iota
	codecGzip
	codecSnappy
	codecLz4
	codecZstd
)

// decompress returns the records of a batch, ErrRecordsTooLarge if they take more than
// maxRecords.
func decompress(codec int16, b []byte) ([]byte, error) {
	switch codec {
	case codecNone:
		return b, nil
	case codecGzip:
		in, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, malformed(err)
		}
		return readRecords(in)
	case codecSnappy:
		return decodeSnappy(b)
	case codecLz4:
		return readRecords(lz4.NewReader(bytes.NewReader(b)))
	case codecZstd:
		in, err := zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxRecords))
		if err != nil {
			return nil, malformed(err)
		}
		defer in.Close()
		return readRecords(in)
	}
	return nil, foreign("a record batch is compressed with the unknown codec %d", codec)
}

// malformed returns the error of records that cannot be decompressed.
func malformed(err error) error {
	return foreign("the records of a batch cannot be decompressed: %w", err)
}

// readRecords reads decompressed records, up to maxRecords.
func readRecords(in io.Reader) ([]byte, error) {
	records, err := io.ReadAll(io.LimitReader(in, maxRecords+1))
	switch {
	case len(records) > maxRecords || errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return nil, ErrRecordsTooLarge
	case err != nil:
		return nil, malformed(err)
	}
	return records, nil
}

// The header of the Java library's framing: a magic and two versions. Length-prefixed
// blocks follow. Other clients write a single block without framing.
const (
	snappyMagic  = "\x82SNAPPY\x00"
	snappyHeader = len(snappyMagic) + 8
)

// decodeSnappy decompresses records with or without the Java library's framing.
func decodeSnappy(b []byte) ([]byte, error) {
	if !bytes.HasPrefix(b, []byte(snappyMagic)) || len(b) < snappyHeader {
		return decodeSnappyBlock(nil, b)
	}
	var records []byte
	for b = b[snappyHeader:]; len(b) > 0; {
		if len(b) < 4 || int64(binary.BigEndian.Uint32(b)) > int64(len(b)-4) {
			return nil, malformed(io.ErrUnexpectedEOF)
		}
		size := binary.BigEndian.Uint32(b)
		var err error
		if records, err = decodeSnappyBlock(records, b[4:4+size]); err != nil {
			return nil, err
		}
		b = b[4+size:]
	}
	return records, nil
}

// decodeSnappyBlock appends the decompressed block to dst.
func decodeSnappyBlock(dst, block []byte) ([]byte, error) {
	n, err := s2.DecodedLen(block)
	if err != nil {
		return nil, malformed(err)
	}
	if len(dst)+n > maxRecords {
		return nil, ErrRecordsTooLarge
	}
	decoded, err := s2.Decode(nil, block)
	if err != nil {
		return nil, malformed(err)
	}
	return append(dst, decoded...), nil
}
