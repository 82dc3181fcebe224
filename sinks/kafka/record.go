package kafka

import (
	"encoding/binary"
	"math/bits"

	"ndrbridge/transform"
)

const (
	headerPrefix      = "ce_"
	contentTypeHeader = "content-type"
)

// appendRecord appends an event's record in format v2, whose integers are zigzag
// varints. time (in milliseconds) and offset are relative to the batch's.
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
			e.headers = binary.AppendVarint(e.headers, int64(len(headerPrefix)+len(name)))
			e.headers = append(e.headers, headerPrefix...)
			e.headers = append(e.headers, name...)
			e.headers = appendSized(e.headers, value)
			count++
		}
	}
	e.headers = appendSized(e.headers, contentTypeHeader)
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
