// Package forward carries HTTP over NATS: NewTransport returns a client's http.RoundTripper, and
// Serve calls an http.Handler. It uses core NATS, not JetStream.
//
// Each request has a connection of its own, a net.Conn between two inboxes, on which net/http
// speaks HTTP/1.1:
//
//	client                                 server
//	open   ──────────────────────────────▶ (the server's subject)
//	       ◀────────────────────────────── accept
//	data   ──────────────────────────────▶
//	       ◀────────────────────────────── status  so many messages were sent and read
//	       ◀────────────────────────────── data …
//	status ──────────────────────────────▶
//	       ◀────────────────────────────── end
//
// A side sends at most window messages that the other one has not read: a slow reader slows the
// writer down, and nobody buffers more. Either side sends its status now and then, which shows
// that it is alive and whether messages were lost, as core NATS may: then the connection ends with
// ErrLost.
//
// A client sends nothing of its request before the server has accepted, so a request whose
// client has left meanwhile is never carried out. If several servers accept, the first one gets
// the request.
package forward

import (
	"errors"
	"fmt"
	"time"
)

// Errors that callers act on. They are returned wrapped.
var (
	// ErrNobody is returned if nobody serves the subject. The request was not carried
	// out.
	ErrNobody = errors.New("nobody serves it")
	// ErrBusy is returned if the server has no capacity for another request. The request was
	// not carried out.
	ErrBusy = errors.New("too many requests at once")
	// ErrLost is returned if the other side has gone away, does not answer, or messages
	// were lost. It is not known whether the request was carried out.
	ErrLost = errors.New("the connection through NATS was lost")
)

// lost returns an ErrLost with the reason.
func lost(why string) error { return fmt.Errorf("%w: %s", ErrLost, why) }

// Limits in bytes.
const (
	maxHead  = 64 << 10 // of a request or response
	maxChunk = 64 << 10 // of the data in one message
	maxText  = 500      // of an end
)

// window is how many messages of data may be sent and not yet read by the other side.
const window = 4

// Limits in time. The time that a handler takes to respond is not limited.
const (
	// aliveEvery is how often a side sends its status.
	aliveEvery = 2 * time.Second
	// lostAfter is how long no message may arrive before the other side is considered gone. If
	// NATS reports that its inbox has no subscriber, missingAfter is.
	lostAfter    = 5 * aliveEvery
	missingAfter = aliveEvery / 2
	// stall is the maximum time that one side waits for the other to read or send a part of
	// a body.
	stall = time.Minute
)

// maxRequests is the maximum number of requests of a Server at once. Each takes
// at most about half a megabyte of memory.
const maxRequests = 64
