package forward

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"sync"
	"time"
)

// errDone ends an exchange that is complete.
var errDone = errors.New("the exchange is complete")

// exchange is one side of an exchange: it sends the body of one direction and receives
// that of the other. At most one goroutine calls read at a time, and one write.
type exchange struct {
	bus    bus
	inbox  string // where this side receives
	client bool
	chunk  int // the maximum size of a data frame's payload

	// ctx is cancelled with the reason when the exchange ends: errDone if it is
	// complete.
	ctx context.Context
	end context.CancelCauseFunc
	// running are the goroutines of the exchange, which end with it.
	running sync.WaitGroup

	// Each receives when what it is named for may have happened.
	accepted, started, headed, arrived, credited chan struct{}

	sending sync.Mutex // frames are published in the order of their numbers
	sent    uint64     // the number of the next frame
	scratch []byte

	mu           sync.Mutex
	peer         string // the inbox of the other side; empty: not known yet
	received     uint64 // the number of the next frame
	lastReceived time.Time
	quiet        bool      // nothing was sent since the last keep-alive interval began
	missing      time.Time // when NATS reported that the peer's inbox has no subscriber; zero: it did not
	head         []byte
	body         bytes.Buffer // received and not read yet
	complete     bool         // the whole body was received
	taken        uint64       // bytes that were read
	granted      uint64       // taken, as the peer knows it
	written      uint64       // bytes of the body that were sent
	read         uint64       // of those, what the peer has read
}

func newExchange(ctx context.Context, b bus, client bool) *exchange {
	signal := func() chan struct{} { return make(chan struct{}, 1) }
	x := &exchange{
		bus: b, inbox: b.newInbox(), client: client, chunk: min(maxChunk, b.maxPayload()-64), lastReceived: time.Now(),
		accepted: signal(), started: signal(), headed: signal(), arrived: signal(), credited: signal(),
	}
	x.ctx, x.end = context.WithCancelCause(ctx)
	return x
}

// notify makes a signal, unless it is pending.
func notify(signal chan struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

// send publishes a frame to the other side. If it fails, the exchange ends; if the
// exchange has ended, it returns the reason.
func (x *exchange) send(k kind, payload []byte) error {
	if err := context.Cause(x.ctx); err != nil {
		return err
	}
	x.mu.Lock()
	peer := x.peer
	x.quiet = k == frameAlive
	x.mu.Unlock()
	if err := x.publish(peer, k, payload); err != nil {
		err = lost(err.Error())
		x.end(err)
		return err
	}
	return nil
}

func (x *exchange) publish(subject string, k kind, payload []byte) error {
	x.sending.Lock()
	defer x.sending.Unlock()
	x.scratch = frame{k, x.sent, payload}.appendTo(x.scratch[:0])
	x.sent++
	return x.bus.publish(subject, x.inbox, x.scratch)
}

// receive takes a message from the inbox. It never blocks.
func (x *exchange) receive(m message) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.ctx.Err() != nil, x.over():
	case m.nobody && x.peer == "":
		x.end(ErrNobody)
	case m.nobody:
		// The peer's last frames may still be on their way.
		if x.missing.IsZero() {
			x.missing = time.Now()
		}
	case x.peer != "" && m.reply != x.peer: // from another server that accepted the request
	default:
		f, err := parseFrame(m.data)
		switch {
		case err != nil:
			x.end(lost(err.Error()))
		case f.number < x.received: // a copy
		case f.number > x.received:
			x.end(lost("messages were lost"))
		default:
			x.received++
			x.lastReceived, x.missing = time.Now(), time.Time{}
			if !x.take(m.reply, f) {
				x.end(lost("the other side sent an unexpected frame"))
			}
		}
	}
}

// over reports whether no more frames are expected: the response was received.
func (x *exchange) over() bool { return x.client && x.complete }

// take handles the next frame. It reports whether the frame is allowed now.
func (x *exchange) take(reply string, f frame) bool {
	if f.kind == frameAbort {
		x.end(abortError(f.payload))
		return true
	}
	if x.peer == "" { // only of a client
		if f.kind != frameAccept || !x.bus.isInbox(reply) {
			return false
		}
		x.peer = reply
		notify(x.accepted)
		return true
	}
	switch f.kind {
	case frameStart:
		notify(x.started)
		return !x.client
	case frameHead:
		first := x.client && x.head == nil
		x.head = f.payload
		notify(x.headed)
		return first
	case frameData:
		if x.complete || x.client && x.head == nil || x.body.Len()+len(f.payload) > window {
			return false
		}
		x.body.Write(f.payload)
		notify(x.arrived)
		return true
	case frameEnd:
		first := !x.complete && (!x.client || x.head != nil)
		x.complete = true
		notify(x.arrived)
		return first
	case frameCredit:
		read, n := binary.Uvarint(f.payload)
		if n != len(f.payload) || read < x.read || read > x.written {
			return false
		}
		x.read = read
		notify(x.credited)
		return true
	}
	return f.kind == frameAlive
}

// readBody reads from the body that the other side sends. It returns io.EOF at its end.
// If limit is not 0, the exchange ends if nothing arrives within limit.
func (x *exchange) readBody(p []byte, limit time.Duration) (int, error) {
	for {
		n, grant, complete := x.takeBody(p)
		if grant > 0 {
			// A failure ends the exchange, which the next call reports.
			_ = x.send(frameCredit, binary.AppendUvarint(nil, grant))
		}
		switch {
		case n > 0 || len(p) == 0 && !complete:
			return n, nil
		case complete:
			return 0, io.EOF
		}
		if err := x.wait(x.arrived, limit, "nothing of the body arrived"); err != nil {
			return 0, err
		}
	}
}

// takeBody reads what was received of the body. grant is the number of bytes read so far
// if the other side should know it, else 0.
func (x *exchange) takeBody(p []byte) (n int, grant uint64, complete bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ctx.Err() != nil && !x.complete {
		return 0, 0, false
	}
	n, _ = x.body.Read(p) // its only error is io.EOF
	x.taken += uint64(n)
	if !x.complete && x.taken-x.granted >= window/4 {
		x.granted = x.taken
		grant = x.taken
	}
	return n, grant, x.complete && x.body.Len() == 0
}

// writeBody sends p as a part of the body, no faster than the other side reads.
func (x *exchange) writeBody(p []byte) error {
	for len(p) > 0 {
		x.mu.Lock()
		n := min(len(p), x.chunk, int(window-(x.written-x.read)))
		x.written += uint64(n)
		x.mu.Unlock()
		if n == 0 {
			if err := x.wait(x.credited, stall, "the other side reads nothing of the body"); err != nil {
				return err
			}
			continue
		}
		if err := x.send(frameData, p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// wait returns nil once signal receives, or the reason why the exchange has ended. If
// limit is not 0, it ends the exchange if signal does not receive within limit.
func (x *exchange) wait(signal <-chan struct{}, limit time.Duration, why string) error {
	var expired <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-signal:
		return nil
	case <-x.ctx.Done():
	case <-expired:
		x.end(lost(why + " for " + limit.String()))
	}
	return context.Cause(x.ctx)
}

// keepAlive sends keep-alive frames and ends the exchange if the other side has gone. It
// returns when the exchange has ended, after it has reported that to the other side.
func (x *exchange) keepAlive() {
	ticker := time.NewTicker(keepAliveEvery)
	defer ticker.Stop()
	for x.ctx.Err() == nil {
		select {
		case <-x.ctx.Done():
		case <-ticker.C:
			if x.isIdle() {
				_ = x.send(frameAlive, nil) // a failure ends the exchange
			}
		}
	}
	x.abort(context.Cause(x.ctx))
}

// isIdle reports whether a keep-alive frame is due. It ends the exchange if the other
// side has gone.
func (x *exchange) isIdle() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over() {
		return false
	}
	if time.Since(x.lastReceived) > lostAfter || !x.missing.IsZero() && time.Since(x.missing) > missingAfter {
		x.end(lost("the other side does not answer"))
		return false
	}
	idle := x.quiet && x.peer != ""
	x.quiet = true
	return idle
}

// abort reports to the other side that the exchange has ended, unless it is complete or
// the other side has reported it.
func (x *exchange) abort(cause error) {
	x.mu.Lock()
	peer, over := x.peer, x.over()
	x.mu.Unlock()
	if peer == "" || over || errors.Is(cause, errDone) || errors.Is(cause, errLeft) || errors.Is(cause, ErrBusy) {
		return
	}
	why := reasonFailed
	switch {
	case errors.Is(cause, errClosed):
		why = reasonClosed
	case x.client && !errors.Is(cause, ErrLost):
		why = reasonLeft
	}
	text := strings.TrimPrefix(cause.Error(), ErrLost.Error()+": ") // the other side adds it again
	_ = x.publish(peer, frameAbort, abortPayload(why, text))        // if it is lost, silence has the same effect
}
