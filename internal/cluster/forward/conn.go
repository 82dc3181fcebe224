package forward

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

// The kinds of messages, their first byte.
const (
	kindOpen   = 'O' // the version of the protocol
	kindAccept = 'A' // nothing
	kindBusy   = 'B' // nothing
	kindData   = 'D' // a number, counted per direction from 0, and bytes
	kindStatus = 'S' // how many messages of data were sent, and how many were read
	kindEnd    = 'E' // a text for people
)

// version is that of the protocol.
const version = 2

// conn is a side's end of a connection. It is one end of a pipe, whose deadlines it has; the
// other end is pumped to and from NATS.
type conn struct {
	net.Conn
	pump  net.Conn
	bus   bus
	inbox string // where this side receives

	// ctx is cancelled with the reason when the connection ends.
	ctx context.Context
	end context.CancelCauseFunc

	accepted chan struct{} // receives when the server has accepted
	credits  chan struct{} // receives for each message of data that may be sent
	arrived  chan []byte   // has space for the data that may arrive

	sending sync.Mutex // a status follows the data that it counts

	mu       sync.Mutex
	peer     string    // the inbox of the other side; empty: not known yet
	sent     uint64    // messages of data
	credited uint64    // how many of them the other side has read
	received uint64    // messages of data
	taken    uint64    // how many of them were read
	heard    time.Time // when the last message arrived
}

// errClosed ends a connection that this side closes.
var errClosed = errors.New("the other side closed the connection")

// errGap ends a connection whose messages do not all arrive.
var errGap = lost("messages were lost")

// newConn returns a connection that receives. run must be called.
func newConn(b bus, peer string) (c *conn, unsubscribe func(), err error) {
	c = &conn{
		bus: b, inbox: b.newInbox(), peer: peer, heard: time.Now(),
		accepted: make(chan struct{}, 1), credits: make(chan struct{}, window), arrived: make(chan []byte, window),
	}
	for range window {
		c.credits <- struct{}{}
	}
	c.ctx, c.end = context.WithCancelCause(context.Background())
	c.Conn, c.pump = net.Pipe()
	unsubscribe, err = b.subscribe(c.inbox, c.receive)
	return c, unsubscribe, err
}

// Read implements net.Conn. At the end of the connection it returns the reason.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return n, c.reason(err)
}

// Write implements net.Conn, as Read.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return n, c.reason(err)
}

func (c *conn) reason(err error) error {
	if cause := context.Cause(c.ctx); err != nil && cause != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return cause
	}
	return err
}

// publish sends a message to the other side, once that is known. If it fails, the connection
// ends.
func (c *conn) publish(kind byte, payload []byte) {
	c.mu.Lock()
	peer := c.peer
	c.mu.Unlock()
	if peer == "" {
		return
	}
	if err := c.bus.publish(peer, c.inbox, append([]byte{kind}, payload...)); err != nil {
		c.end(lost(err.Error()))
	}
}

// receive takes a message from the inbox. It never blocks.
func (c *conn) receive(m message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case m.nobody && c.peer == "":
		c.end(ErrNobody)
	case m.nobody: // the last messages of the other side may still be on their way
		if gone := time.Now().Add(missingAfter - lostAfter); gone.Before(c.heard) {
			c.heard = gone
		}
	case c.peer != "" && m.reply != c.peer: // of another server that accepted
	case len(m.data) == 0 || !c.take(m.reply, m.data[0], m.data[1:]):
		c.end(lost("the other side sent an unexpected message"))
	default:
		c.heard = time.Now()
	}
}

// take handles a message, and reports whether it is allowed now.
func (c *conn) take(reply string, kind byte, payload []byte) bool {
	switch {
	case kind == kindEnd:
		c.end(lost(strings.ToValidUTF8(string(payload[:min(len(payload), maxText)]), "?")))
	case kind == kindBusy && c.peer == "":
		c.end(ErrBusy)
	case kind == kindAccept && c.peer == "" && c.bus.isInbox(reply):
		c.peer = reply
		c.accepted <- struct{}{}
	case c.peer == "":
		return false
	case kind == kindData:
		return c.takeData(payload)
	case kind == kindStatus:
		return c.takeStatus(payload)
	default:
		return kind == kindAccept // a copy
	}
	return true
}

func (c *conn) takeData(payload []byte) bool {
	number, n := binary.Uvarint(payload)
	switch {
	case n <= 0 || len(payload)-n > maxChunk || c.received-c.taken == window:
		return false
	case number > c.received:
		c.end(errGap)
	case number == c.received: // not a copy
		c.received++
		c.arrived <- payload[n:]
	}
	return true
}

func (c *conn) takeStatus(payload []byte) bool {
	sent, n := binary.Uvarint(payload)
	read, m := binary.Uvarint(payload[max(n, 0):])
	switch {
	case n <= 0 || m <= 0 || read > c.sent:
		return false
	case sent > c.received:
		c.end(errGap)
	}
	for ; c.credited < read; c.credited++ {
		c.credits <- struct{}{}
	}
	return true
}

// publishStatus sends how many messages of data were sent and read.
func (c *conn) publishStatus() {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.mu.Lock()
	payload := binary.AppendUvarint(binary.AppendUvarint(nil, c.sent), c.taken)
	c.mu.Unlock()
	c.publish(kindStatus, payload)
}

// run serves the connection until it ends, and reports that to the other side. The pipe is
// closed when it returns.
func (c *conn) run() {
	var pumping sync.WaitGroup
	pumping.Go(c.sendData)
	pumping.Go(c.receiveData)
	ticker := time.NewTicker(aliveEvery)
	defer ticker.Stop()
	for c.ctx.Err() == nil {
		select {
		case <-c.ctx.Done():
		case <-ticker.C:
			c.mu.Lock()
			heard := c.heard
			c.mu.Unlock()
			if time.Since(heard) > lostAfter {
				c.end(lost("the other side does not answer"))
				break
			}
			c.publishStatus()
		}
	}
	text := strings.TrimPrefix(context.Cause(c.ctx).Error(), ErrLost.Error()+": ") // the other side adds it again
	c.publish(kindEnd, []byte(text[:min(len(text), maxText)]))
	_ = c.pump.Close() // never fails
	pumping.Wait()
}

// sendData sends what is written to the connection. Once that is closed and the other side has read
// everything, it ends the connection.
func (c *conn) sendData() {
	for b := make([]byte, min(maxChunk, c.bus.maxPayload()-64)); ; {
		n, err := c.pump.Read(b)
		if err != nil {
			break
		}
		if !c.awaitCredit() {
			return
		}
		c.publishData(b[:n])
	}
	for range window {
		if !c.awaitCredit() {
			return
		}
	}
	c.end(errClosed)
}

func (c *conn) publishData(b []byte) {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.mu.Lock()
	payload := append(binary.AppendUvarint(nil, c.sent), b...)
	c.sent++
	c.mu.Unlock()
	c.publish(kindData, payload)
}

// awaitCredit waits until data may be sent. It returns false if the connection has ended.
func (c *conn) awaitCredit() bool {
	timer := time.NewTimer(stall)
	defer timer.Stop()
	select {
	case <-c.credits:
		return true
	case <-c.ctx.Done():
	case <-timer.C:
		c.end(lost("the other side reads nothing for " + stall.String()))
	}
	return false
}

// receiveData lets the connection read what arrives.
func (c *conn) receiveData() {
	for {
		select {
		case data := <-c.arrived:
			if _, err := c.pump.Write(data); err != nil {
				return
			}
			c.mu.Lock()
			c.taken++
			c.mu.Unlock()
			c.publishStatus()
		case <-c.ctx.Done():
			return
		}
	}
}
