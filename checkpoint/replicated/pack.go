package replicated

import (
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"ndrbridge/checkpoint"
)

const (
	// maxRecord bounds a record. Stores append no larger one.
	maxRecord = checkpoint.MaxRecord
	// maxPacked bounds the parts of a record that a reader keeps until the last one comes.
	maxPacked = maxRecord + maxRecord/64
)

// packer compresses records. It is used from one goroutine.
type packer struct {
	encoder *zstd.Encoder
	packed  []byte
}

func newPacker() (*packer, error) {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("create the encoder: %w", err)
	}
	return &packer{encoder: e}, nil
}

// keptBytes is the largest buffer that a packer keeps for the next record.
const keptBytes = 4 << 20

// pack returns a record's compressed form, which is valid until the next call.
func (p *packer) pack(record []byte) ([]byte, error) {
	if len(record) > maxRecord {
		return nil, fmt.Errorf("the record has %d bytes; the log takes at most %d", len(record), maxRecord)
	}
	if cap(p.packed) > keptBytes {
		p.packed = nil
	}
	p.packed = p.encoder.EncodeAll(record, p.packed[:0])
	return p.packed, nil
}

// newDecoder returns a decoder for DecodeAll that makes maxRecord bytes at most.
func newDecoder() (*zstd.Decoder, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxRecord), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("create the decoder: %w", err)
	}
	return d, nil
}

// errPacked means that the data of a record cannot be decompressed.
var errPacked = errors.New("cannot be decompressed")

func unpack(d *zstd.Decoder, packed []byte) ([]byte, error) {
	record, err := d.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errPacked, err)
	}
	return record, nil
}
