package kafkawire

import (
	"encoding/binary"
	"fmt"
	"io"

	"ndrbridge/sinks"
)

const (
	sizeSize        = 4 // of the size in front of a frame
	correlationSize = 4 // of the number in front of an answer
)

// readFrame reads an answer of at most most bytes, with its number in front. Of one that
// is larger, and no larger than whole, it reads the first most: unread is the rest.
func readFrame(r io.Reader, most, whole int) (frame []byte, unread int, err error) {
	var prefix [sizeSize]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return nil, 0, err
	}
	size := int32(binary.BigEndian.Uint32(prefix[:]))
	if limit := max(most, whole); size < correlationSize || int64(size) > int64(limit) {
		return nil, 0, notAFrame(prefix, size, limit)
	}
	frame = make([]byte, min(int(size), most))
	if _, err := io.ReadFull(r, frame); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, 0, err
	}
	return frame, int(size) - len(frame), nil
}

// notAFrame explains what begins like no answer of Kafka. Texts and TLS records read as
// sizes are far beyond the limit.
func notAFrame(prefix [sizeSize]byte, size int32, most int) error {
	switch {
	case string(prefix[:]) == "HTTP":
		return advise(sinks.Halted, "correct brokers: Kafka listens on another port", fmt.Errorf("it answers HTTP"))
	// A record's type, from change cipher spec to application data, and version 3.x.
	case prefix[0] >= 20 && prefix[0] <= 23 && prefix[1] == 3:
		return advise(sinks.Halted, "set tls, or correct the port", fmt.Errorf("it answers with a TLS record: the port expects TLS"))
	case printable(prefix):
		return foreign("it answers %q, which is not Kafka's protocol", prefix)
	}
	return foreign("it announces an answer of %d bytes, and at most %d are read", size, most)
}

func printable(b [sizeSize]byte) bool {
	for _, c := range b {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// foreign is the error of an answer that no broker of Kafka gives.
func foreign(format string, a ...any) error {
	return advise(sinks.Transient, "is it a Kafka broker, and the port that is meant? See brokers", fmt.Errorf(format, a...))
}
