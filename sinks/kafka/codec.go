package kafka

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// codec appends the compressed form of src to dst. It is not safe for concurrent use.
type codec func(dst, src []byte) ([]byte, error)

// compression is a codec's number in the attributes of a record batch.
type compression int8

const (
	compressionNone compression = iota
	compressionGzip
	compressionSnappy
	compressionLZ4
	compressionZstd
)

// compressionOf returns the compression with a name: none, gzip, snappy, lz4 or zstd
// (also if empty).
func compressionOf(name string) (compression, error) {
	c := slices.Index([]string{"none", "gzip", "snappy", "lz4", "zstd"}, cmp.Or(name, "zstd"))
	if c < 0 {
		return 0, fmt.Errorf("compression: unknown %q: use none, gzip, snappy, lz4 or zstd", name)
	}
	return compression(c), nil
}

// zstdWindow is the size of zstd's window. Detections resemble their neighbours, so
// that a larger one costs memory and time and saves almost nothing.
const zstdWindow = 256 << 10

// newCodec returns the codec of c, nil for compressionNone.
func newCodec(c compression) (codec, error) {
	switch c {
	case compressionGzip:
		return streamCodec(gzip.NewWriter(io.Discard)), nil
	case compressionSnappy:
		return compressSnappy, nil
	case compressionLZ4:
		// The Java client requires independent blocks; smaller ones cost more bytes
		// than they save time. The batch has a checksum of its own.
		stream := lz4.NewWriter(io.Discard)
		err := stream.Apply(lz4.BlockSizeOption(lz4.Block256Kb), lz4.ChecksumOption(false), lz4.ConcurrencyOption(1))
		return streamCodec(stream), err
	case compressionZstd:
		encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithWindowSize(zstdWindow), zstd.WithEncoderCRC(false))
		return func(dst, src []byte) ([]byte, error) { return encoder.EncodeAll(src, dst), nil }, err
	}
	return nil, nil
}

// streamCodec returns the codec of a stream compressor.
func streamCodec(stream interface {
	io.WriteCloser
	Reset(io.Writer)
}) codec {
	var out appender
	return func(dst, src []byte) ([]byte, error) {
		out = dst
		stream.Reset(&out)
		if _, err := stream.Write(src); err != nil {
			return nil, err
		}
		err := stream.Close()
		return out, err
	}
}

type appender []byte

func (a *appender) Write(b []byte) (int, error) {
	*a = append(*a, b...)
	return len(b), nil
}

const (
	snappyHeader = "\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01" // magic, version, oldest compatible version
	snappyBlock  = 32 << 10
)

// compressSnappy writes the framing of the Java library, which all of Kafka's clients
// read: a header, then length-prefixed blocks.
func compressSnappy(dst, src []byte) ([]byte, error) {
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
