package kafkawire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// shape describes the fields of a message. It exists because the decoders allocate memory
// for as many elements as a list announces if at least that many bytes are left. Given
// the minimum size of an element, a list that the message cannot hold is rejected before,
// and the decoded message takes only a small multiple of the message's size.
type shape []field

// field is a field of a message, in versions from since on.
type field struct {
	since int16
	kind  kind
	size  int   // of a fixed field, or of the length before another
	each  shape // of the elements of a list
}

type kind int

const (
	fixed kind = iota
	sized      // bytes, prefixed with their number; -1: null
	list       // elements, prefixed with their number; -1: null
)

var (
	i8   = field{kind: fixed, size: 1} // or a boolean
	i16  = field{kind: fixed, size: 2}
	i32  = field{kind: fixed, size: 4}
	i64  = field{kind: fixed, size: 8}
	text = field{kind: sized, size: 2}
	blob = field{kind: sized, size: 4}
)

func listOf(each ...field) field { return field{kind: list, size: 4, each: each} }

// from returns f as a field that exists only from version since on.
func (f field) from(since int16) field {
	f.since = since
	return f
}

// check returns an error if a message does not have the shape. Like the decoders, it
// ignores bytes after it.
func (s shape) check(message []byte, version int16) error {
	_, err := s.skip(message, version)
	return err
}

var errShort = errors.New("it ends too early")

// skip returns the bytes after the shape, or an error if b does not begin with it.
func (s shape) skip(b []byte, version int16) ([]byte, error) {
	for _, f := range s {
		if version < f.since {
			continue
		}
		if len(b) < f.size {
			return nil, errShort
		}
		n := 0
		switch {
		case f.kind == fixed:
		case f.size == 2:
			n = int(int16(binary.BigEndian.Uint16(b)))
		default:
			n = int(int32(binary.BigEndian.Uint32(b)))
		}
		b = b[f.size:]
		if n < -1 {
			return nil, fmt.Errorf("it announces a length of %d", n)
		}
		n = max(n, 0)
		if f.kind == sized {
			if n > len(b) {
				return nil, fmt.Errorf("it announces %d bytes, and %d are left", n, len(b))
			}
			b = b[n:]
		}
		if f.kind != list {
			continue
		}
		if size := f.each.minSize(version); n > len(b)/size {
			return nil, fmt.Errorf("it announces a list of %d elements, and %d bytes are left", n, len(b))
		}
		for range n {
			var err error
			if b, err = f.each.skip(b, version); err != nil {
				return nil, err
			}
		}
	}
	return b, nil
}

// minSize returns the minimum size of the shape in bytes, at least 1.
func (s shape) minSize(version int16) (n int) {
	for _, f := range s {
		if version >= f.since {
			n += f.size
		}
	}
	return max(n, 1)
}
