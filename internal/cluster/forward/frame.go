package forward

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// version is the version of the protocol, the first byte of each frame.
const version = 1

// kind is the kind of a frame.
type kind byte

// The kinds of frames and their payloads.
const (
	frameOpen   kind = 'O' // the head of a request; sent to the server's subject
	frameAccept kind = 'A' // none
	frameStart  kind = 'S' // none
	frameHead   kind = 'H' // the head of a response
	frameData   kind = 'D' // a part of a body
	frameEnd    kind = 'E' // none; the body is complete
	frameCredit kind = 'C' // how many bytes of the body were read so far
	frameAlive  kind = 'K' // none
	frameAbort  kind = 'X' // a reason and a text for people
)

// frame is one message of an exchange: version, kind, number and payload.
type frame struct {
	kind    kind
	number  uint64 // counted per direction, from 0
	payload []byte
}

var errFrame = errors.New("not a frame of this protocol")

// appendTo appends the frame to b and returns the result.
func (f frame) appendTo(b []byte) []byte {
	b = append(b, version, byte(f.kind))
	b = binary.AppendUvarint(b, f.number)
	return append(b, f.payload...)
}

// parseFrame returns the frame in b, whose payload is a part of b.
func parseFrame(b []byte) (frame, error) {
	if len(b) < 3 {
		return frame{}, errFrame
	}
	if b[0] != version {
		return frame{}, fmt.Errorf("%w: version %d, not %d", errFrame, b[0], version)
	}
	f := frame{kind: kind(b[1])}
	number, n := binary.Uvarint(b[2:])
	if n <= 0 {
		return frame{}, errFrame
	}
	f.number, f.payload = number, b[2+n:]
	limit := 0
	switch f.kind {
	case frameOpen, frameHead:
		limit = maxHead
	case frameData:
		limit = maxChunk
	case frameCredit:
		limit = binary.MaxVarintLen64
	case frameAbort:
		limit = 1 + maxReason
	case frameAccept, frameStart, frameEnd, frameAlive:
	default:
		return frame{}, fmt.Errorf("%w: kind %q", errFrame, f.kind)
	}
	if len(f.payload) > limit {
		return frame{}, fmt.Errorf("%w: kind %q with %d bytes", errFrame, f.kind, len(f.payload))
	}
	return f, nil
}

// reason is why a side ends an exchange early.
type reason byte

// The reasons of an abort frame.
const (
	reasonBusy   reason = 'b' // the server has no capacity
	reasonClosed reason = 'c' // the server closes
	reasonLeft   reason = 'l' // the client does not need the response any more
	reasonFailed reason = 'f' // any other
)

func abortPayload(r reason, text string) []byte {
	return append([]byte{byte(r)}, text[:min(len(text), maxReason)]...)
}

// abortError returns the error that an abort frame reports.
func abortError(payload []byte) error {
	if len(payload) == 0 {
		return lost("the other side ended it")
	}
	text := strings.ToValidUTF8(string(payload[1:]), "?")
	switch reason(payload[0]) {
	case reasonBusy:
		return ErrBusy
	case reasonClosed:
		return lost("the server closed")
	case reasonLeft:
		return errLeft
	}
	return lost(text)
}

// errLeft ends an exchange that the client has left.
var errLeft = errors.New("the client has left")

// lost returns an ErrLost with the reason.
func lost(why string) error { return fmt.Errorf("%w: %s", ErrLost, why) }
