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
	"cmp"
	"errors"
	"log/slog"
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

// lostAfter is the number of keep-alive intervals without a frame after which the other
// side is taken for gone.
const lostAfter = 5

// Options configure a Transport or a Server.
type Options struct {
	// Requests is the maximum number of requests at once; 0: 64. Each takes at most
	// about half a megabyte of memory.
	Requests int
	// KeepAlive is the interval of keep-alive frames; 0: 2 s. The other side is taken for
	// gone after five intervals without a frame, or one after NATS has reported that its
	// inbox has no subscriber.
	KeepAlive time.Duration
	// Stall is the maximum time that one side waits for the other to read or send a
	// part of a body; 0: 60 s. It does not limit the time a handler takes to respond.
	Stall time.Duration
	// Log receives panics of the handler; nil: slog.Default().
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	o.Requests = cmp.Or(o.Requests, 64)
	o.KeepAlive = cmp.Or(o.KeepAlive, 2*time.Second)
	o.Stall = cmp.Or(o.Stall, time.Minute)
	o.Log = cmp.Or(o.Log, slog.Default())
	return o
}
