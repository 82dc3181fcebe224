package kafka

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// codec compresses the records of a batch. It is not safe for concurrent use.
type codec interface {
	// compress appends the compressed form of src to dst.
	compress(dst, src []byte) ([]byte, error)
}

// compression is a codec's number in the attributes of a record batch.
type compression int8

const (
	uncompressed compression = iota
	gzipped
	snappied
	lz4ed
	zstded
)

// compressionOf is the codec that a name says: none, gzip, snappy, lz4 or zstd
// (also when empty). Its number is what the attributes of a record batch hold.
func compressionOf(name string) (compression, error) {
	switch name {
	case "none":
		return uncompressed, nil
	case "gzip":
		return gzipped, nil
	case "snappy":
		return snappied, nil
	case "lz4":
		return lz4ed, nil
	case "", "zstd":
		return zstded, nil
	}
	return 0, fmt.Errorf("compression: %q is none of none, gzip, snappy, lz4, zstd", name)
}

// zstdWindow is how far back zstd looks for what it has seen. Detections repeat
// their neighbours: more costs memory and time, and hardly saves a byte.
const zstdWindow = 256 << 10

// newCodec makes a codec; nil: none.
func newCodec(c compression) (codec, error) {
	switch c {
	case gzipped:
		return &streamCodec{stream: gzip.NewWriter(io.Discard)}, nil
	case snappied:
		return snappyCodec{}, nil
	case lz4ed:
		// Blocks stand alone, as the Java client demands; smaller ones than these
		// cost more bytes than they save time. The batch has its own checksum.
		stream := lz4.NewWriter(io.Discard)
		err := stream.Apply(lz4.BlockSizeOption(lz4.Block256Kb), lz4.ChecksumOption(false), lz4.ConcurrencyOption(1))
		return &streamCodec{stream: stream}, err
	case zstded:
		encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithWindowSize(zstdWindow), zstd.WithEncoderCRC(false))
		return zstdCodec{encoder}, err
	}
	return nil, nil
}

type zstdCodec struct{ encoder *zstd.Encoder }

func (c zstdCodec) compress(dst, src []byte) ([]byte, error) {
	return c.encoder.EncodeAll(src, dst), nil
}

// streamCodec is a codec whose library writes streams.
type streamCodec struct {
	stream interface {
		io.WriteCloser
		Reset(io.Writer)
	}
	out appender
}

func (c *streamCodec) compress(dst, src []byte) ([]byte, error) {
	c.out = dst
	c.stream.Reset(&c.out)
	if _, err := c.stream.Write(src); err != nil {
		return nil, err
	}
	err := c.stream.Close()
	return c.out, err
}

type appender []byte

func (a *appender) Write(b []byte) (int, error) {
	*a = append(*a, b...)
	return len(b), nil
}

// snappyCodec writes the framing of the Java library, which all of Kafka's
// clients read: a header, and blocks each with its length in front.
type snappyCodec struct{}

const (
	snappyHeader = "\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01" // magic, version, oldest version that reads it
	snappyBlock  = 32 << 10
)

func (snappyCodec) compress(dst, src []byte) ([]byte, error) {
	dst = append(dst, snappyHeader...)
	for block := range slices.Chunk(src, snappyBlock) {
		start := len(dst) + 4
		end := start + s2.MaxEncodedLen(len(block))
		dst = slices.Grow(dst, end-len(dst))
		encoded := s2.EncodeSnappyBetter(dst[start:end], block)
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(encoded)))
		dst = dst[:start+len(encoded)]
	}
	return dst, nil
}
