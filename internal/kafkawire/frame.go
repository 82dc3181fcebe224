package kafkawire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"ndrbridge/internal/failure"
)

const (
	sizeSize        = 4 // of the size before a frame
	correlationSize = 4 // of the correlation id before an answer
)

// readFrame reads an answer, which begins with its correlation id, of up to maxRead
// bytes. It reads only the first maxRead bytes of a larger one, of up to maxSize bytes,
// and returns the number of unread bytes.
func readFrame(r io.Reader, maxRead, maxSize int) (frame []byte, unread int, err error) {
	var prefix [sizeSize]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return nil, 0, err
	}
	size := int32(binary.BigEndian.Uint32(prefix[:]))
	if limit := max(maxRead, maxSize); size < correlationSize || int64(size) > int64(limit) {
		return nil, 0, notAFrame(prefix, size, limit)
	}
	frame = make([]byte, min(int(size), maxRead))
	if _, err := io.ReadFull(r, frame); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, 0, err
	}
	return frame, int(size) - len(frame), nil
}

// notAFrame returns the error of a prefix that does not begin an answer of Kafka. Texts
// and TLS records, taken for sizes, are far beyond the limit.
func notAFrame(prefix [sizeSize]byte, size int32, limit int) error {
	switch {
	case string(prefix[:]) == "HTTP":
		return failure.Advise(failure.Halted, "correct brokers: Kafka listens on another port", fmt.Errorf("it answers HTTP"))
	// The type of a TLS record, from change cipher spec to application data, and version 3.x.
	case prefix[0] >= 20 && prefix[0] <= 23 && prefix[1] == 3:
		return failure.Advise(failure.Halted, "set tls, or correct the port", fmt.Errorf("it answers with a TLS record: the port expects TLS"))
	case !bytes.ContainsFunc(prefix[:], func(r rune) bool { return r < ' ' || r > '~' }): // ASCII text
		return foreign("it answers %q, which is not Kafka's protocol", prefix)
	}
	return foreign("it announces an answer of %d bytes; the limit is %d", size, limit)
}

// foreign returns the error of an answer that no Kafka broker gives.
func foreign(format string, a ...any) error {
	return failure.Advise(failure.Transient, "is it a Kafka broker, and the right port? Check brokers", fmt.Errorf(format, a...))
}
