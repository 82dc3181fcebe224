// Package forward carries HTTP requests and their responses over NATS: Transport is a
// client's http.RoundTripper, and Server calls an http.Handler. It uses core NATS, not
// JetStream.
//
// A request and its response are one exchange between two inboxes. Each message is a
// frame, numbered in its direction. The frames of a request whose body has two chunks:
//
//	client                                     server
//	open    head of the request ─────────────▶ (the server's subject)
//	        ◀───────────────────────────────── accept
//	start   ─────────────────────────────────▶ calls the handler
//	data    ─────────────────────────────────▶
//	        ◀───────────────────────────────── credit  so many bytes were read
//	data    ─────────────────────────────────▶
//	end     ─────────────────────────────────▶
//	        ◀───────────────────────────────── head of the response
//	        ◀───────────────────────────────── data …
//	credit  ─────────────────────────────────▶
//	        ◀───────────────────────────────── end
//
// Either side sends alive while it has nothing else to send, and abort to end the exchange
// early. A server calls the handler only once the client has sent start, so a request
// whose client has left meanwhile is never carried out. If several servers accept, the
// first one gets start.
//
// Heads are in the form of HTTP/1.1. A side sends at most window bytes of a body that the
// other one has not read: a slow reader slows the writer down, and neither NATS nor the
// other side buffers more. Core NATS may lose messages; a gap in the numbers ends the
// exchange with ErrLost.
package forward

import (
	"errors"
	"time"
)

// Errors that callers act on. They are returned wrapped.
var (
	// ErrNobody is returned if nobody serves the subject. The request was not carried
	// out.
	ErrNobody = errors.New("nobody serves it")
	// ErrBusy is returned if the server or the transport has no capacity for another
	// request. The request was not carried out.
	ErrBusy = errors.New("too many requests at once")
	// ErrLost is returned if the other side has gone away, does not answer, or messages
	// were lost. It is not known whether the request was carried out.
	ErrLost = errors.New("the connection through NATS was lost")
)

// Limits of an exchange, in bytes.
const (
	// maxHead is the maximum size of the head of a request or response.
	maxHead = 64 << 10
	// maxChunk is the maximum size of the part of a body in one frame.
	maxChunk = 64 << 10
	// window is how much of a body may be sent and not yet read by the other side.
	window = 256 << 10
	// maxReason is the maximum size of the text of an abort frame.
	maxReason = 500
)

// Limits of an exchange in time. The time that a handler takes to respond is not limited.
const (
	// keepAliveEvery is the interval of keep-alive frames.
	keepAliveEvery = 2 * time.Second
	// lostAfter is how long no frame may arrive before the other side is considered gone. If
	// NATS reports that its inbox has no subscriber, missingAfter is.
	lostAfter    = 5 * keepAliveEvery
	missingAfter = keepAliveEvery / 2
	// stall is the maximum time that one side waits for the other to read or send a part of
	// a body.
	stall = time.Minute
)

// maxRequests is the maximum number of requests of a Transport or Server at once. Each takes
// at most about half a megabyte of memory.
const maxRequests = 64
