package lease_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"syscall"
	"testing"
	"time"

	"ndrbridge/internal/lease"
	"ndrbridge/test/assert"
	"ndrbridge/test/leasetest"
	"ndrbridge/test/require"
)

// pair returns both ends of a TCP connection on loopback, with small buffers.
func pair(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	listener := require.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	n := require.Value(net.Dial("tcp", listener.Addr().String()))(t)
	f := require.Value(listener.Accept())(t)
	t.Cleanup(func() { n.Close(); f.Close() })
	near, far = n.(*net.TCPConn), f.(*net.TCPConn)
	require.NoError(t, errors.Join(near.SetWriteBuffer(64<<10), far.SetReadBuffer(64<<10)))
	return near, far
}

// large is more than the buffers of a connection take.
const large = 16 << 20

// write writes large bytes in the background, and returns once some have arrived. The buffers
// fill at once, and the write is blocked, because the peer reads no more.
func write(t *testing.T, to net.Conn, from *net.TCPConn) (written func() (int, error)) {
	t.Helper()
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() {
		n, err := to.Write(make([]byte, large))
		done <- result{n, err}
	}()
	require.Value(io.ReadFull(from, make([]byte, 1)))(t)
	return func() (int, error) {
		r := <-done
		return r.n, r.err
	}
}

// isReset fails the test unless the peer of c reset it, and returns how many bytes c
// still received.
func isReset(t *testing.T, c net.Conn) (received int64) {
	t.Helper()
	received, err := io.Copy(io.Discard, c)
	assert.ErrorIs(t, err, syscall.ECONNRESET, "the peer sees")
	return received
}

func TestNothingIsWrittenWithoutALease(t *testing.T) {
	t.Parallel()
	near, far := pair(t)
	l, c := newLease()
	conn := l.Conn(near)
	require.Value(conn.Write([]byte("in time")))(t)
	require.Equal(t, string(require.Value(io.ReadAll(io.LimitReader(far, 7)))(t)), "in time", "arrived")
	c.Stop(term) // no timer has run
	n, err := conn.Write([]byte("late"))
	assert.True(t, n == 0 && errors.Is(err, lease.ErrExpired), "a write without a lease returns", n, err)
	assert.Equal(t, isReset(t, far), 0, "bytes arrived late")
	l.Renew(c.Now())
	_, err = conn.Write([]byte("again"))
	assert.Error(t, err, "a renewal revived a connection that was reset")
	near, far = pair(t)
	_, err = l.Conn(near).Write([]byte("again"))
	assert.NoError(t, err, "a new connection after a renewal")
	_, err = io.ReadFull(far, make([]byte, 5))
	assert.NoError(t, err)
}

func TestTheEndOfALeaseResetsItsConnections(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		end  func(l *lease.Lease, c *leasetest.Clock)
	}{
		{"when its term passes", func(_ *lease.Lease, c *leasetest.Clock) { c.Advance(term) }},
		{"when it is ended", func(l *lease.Lease, _ *leasetest.Clock) { l.End() }},
		{"when the wall clock jumps", func(_ *lease.Lease, c *leasetest.Clock) { c.Jump(term); c.Advance(term / 4) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			idle, idlePeer := pair(t)
			busy, busyPeer := pair(t)
			l, clock := newLease()
			l.Conn(idle)
			written := write(t, l.Conn(busy), busyPeer)
			clock.Advance(term / 2)
			if l.Renew(clock.Now()); l.Left() == 0 {
				t.Fatal("it is over")
			}
			c.end(l, clock)
			n, err := written()
			assert.True(t, n != large && errors.Is(err, lease.ErrExpired), "the blocked write returns", n, err)
			assert.True(t, isReset(t, busyPeer) < large-1, "all of it arrived")
			isReset(t, idlePeer)
		})
	}
}

func TestAProcessStoppedInTheMiddleOfAWriteWritesNoMore(t *testing.T) {
	t.Parallel()
	near, far := pair(t)
	l, c := newLease()
	written := write(t, l.Conn(near), far)
	c.Stop(term) // no timer has run
	received := isReset(t, far)
	n, err := written()
	assert.True(t, n != large && errors.Is(err, lease.ErrExpired), "the write returns", n, err)
	assert.True(t, received < large-1, "all of it arrived")
}

// pausing is a connection whose process is stopped after each Write.
type pausing struct {
	net.Conn
	clock   *leasetest.Clock
	written []int
}

func (p *pausing) Write(b []byte) (int, error) {
	p.written = append(p.written, len(b))
	p.clock.Stop(term)
	return len(b), nil
}

func TestALongWriteChecksTheLeaseInBetween(t *testing.T) {
	t.Parallel()
	near, _ := pair(t)
	l, c := newLease()
	p := &pausing{Conn: near, clock: c}
	n, err := l.Conn(p).Write(make([]byte, large))
	assert.True(t, n <= 64<<10 && len(p.written) == 1 && errors.Is(err, lease.ErrExpired), "the write returns", n, err, "after writes of", p.written)
	l.Renew(c.Now())
	n, err = l.Conn(p).Write(make([]byte, 64<<10-1))
	assert.True(t, n == 64<<10-1 && len(p.written) == 2 && err == nil, "the write of a datagram returns", n, err, "after writes of", p.written)
}

func TestAConnectionClosedWithoutALeaseIsReset(t *testing.T) {
	t.Parallel()
	near, far := pair(t)
	l, c := newLease()
	conn := l.Conn(near)
	require.Value(conn.Write(make([]byte, 10)))(t)
	c.Stop(term)
	assert.NoError(t, conn.Close(), "Close returns")
	isReset(t, far)
}

func TestAConnectionUnderALeaseIsLikeAnyOther(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		run  func(t *testing.T, conn net.Conn, peer *net.TCPConn)
	}{
		{"what is written arrives", func(t *testing.T, conn net.Conn, peer *net.TCPConn) {
			sent := make([]byte, 3<<20+17)
			_, _ = rand.Read(sent)
			go func() {
				_, err := conn.Write(sent)
				closing := conn.Close()
				assert.True(t, err == nil && closing == nil, "write", err, "close", closing)
			}()
			got, err := io.ReadAll(peer)
			assert.True(t, err == nil && bytes.Equal(got, sent), len(got), len(sent), "bytes arrived", err)
		}},
		{"what the peer sends is read", func(t *testing.T, conn net.Conn, peer *net.TCPConn) {
			go func() { _, _ = peer.Write([]byte("answer")); peer.Close() }()
			assert.Equal(t, string(require.Value(io.ReadAll(conn))(t)), "answer")
		}},
		{"a deadline ends a blocked write", func(t *testing.T, conn net.Conn, peer *net.TCPConn) {
			written := write(t, conn, peer)
			require.NoError(t, conn.SetWriteDeadline(time.Unix(1, 0)))
			n, err := written()
			op, ok := errors.AsType[*net.OpError](err)
			assert.True(t, n != large && errors.Is(err, os.ErrDeadlineExceeded) && ok && op.Op == "write" && op.Timeout(), "it returns", n, err)
		}},
		{"closing ends a blocked write", func(t *testing.T, conn net.Conn, peer *net.TCPConn) {
			written := write(t, conn, peer)
			require.NoError(t, conn.Close())
			n, err := written()
			assert.True(t, n != large && errors.Is(err, net.ErrClosed), "it returns", n, err)
		}},
		{"closing twice is an error, no failure", func(t *testing.T, conn net.Conn, _ *net.TCPConn) {
			_ = conn.Close()
			_ = conn.Close()
		}},
		{"a write to a peer that is gone has the system's error", func(t *testing.T, conn net.Conn, peer *net.TCPConn) {
			_ = peer.SetLinger(0)
			peer.Close()
			var err error
			for err == nil {
				_, err = conn.Write([]byte("lost"))
			}
			op, ok := errors.AsType[*net.OpError](err)
			assert.True(t, ok && op.Op == "write" && (errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)), "it returns", err)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			near, far := pair(t)
			l, _ := newLease()
			c.run(t, l.Conn(near), far)
		})
	}
}

func TestAConnectionThatIsNotTCPNeedsTheLeaseToo(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	defer far.Close()
	l, c := newLease()
	conn := l.Conn(near)
	go func() { _, _ = io.ReadFull(far, make([]byte, 7)) }()
	require.Value(conn.Write([]byte("in time")))(t)
	blocked := make(chan error, 1)
	go func() {
		_, err := conn.Write([]byte("blocked"))
		blocked <- err
	}()
	c.Advance(term)
	assert.ErrorIs(t, <-blocked, lease.ErrExpired, "the blocked write returns")
	near, far = net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	_, err := l.Conn(near).Write([]byte("late"))
	assert.ErrorIs(t, err, lease.ErrExpired, "a write without a lease returns")
}

// net/http takes a connection apart where it can: it writes bodies with ReadFrom, and
// speaks HTTP/2 over TLS.
func TestNothingIsRequestedWithoutALease(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		start func(*httptest.Server)
		major int
	}{
		{"HTTP/1.1", (*httptest.Server).Start, 1},
		{"HTTP/1.1 over TLS", (*httptest.Server).StartTLS, 1},
		{"HTTP/2", func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() }, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			complete := make(chan int, 10)
			inBody, proceed := make(chan bool, 10), make(chan bool)
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.ReadFull(r.Body, make([]byte, 1))
				inBody <- true
				if r.Header.Get("Slow") != "" {
					<-proceed
				}
				if _, err := io.Copy(io.Discard, r.Body); err == nil {
					complete <- r.ProtoMajor
				}
			}))
			c.start(server)
			defer server.Close()
			l, clock := newLease()
			transport := server.Client().Transport.(*http.Transport)
			transport.DialContext = l.DialContext(new(net.Dialer).DialContext)
			client := &http.Client{Transport: transport}
			post := func(slow string) error {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, bytes.NewReader(make([]byte, large)))
				require.NoError(t, err)
				r.Header.Set("Slow", slow)
				answer, err := client.Do(r)
				if err != nil {
					return err
				}
				return answer.Body.Close()
			}
			require.NoError(t, post(""))
			<-inBody
			require.Equal(t, <-complete, c.major, "it speaks HTTP/")
			failed := make(chan error, 1)
			go func() { failed <- post("yes") }()
			<-inBody
			clock.Advance(term)
			close(proceed)
			assert.Error(t, <-failed, "a request has an answer although the lease ended during its body")
			assert.ErrorIs(t, post(""), lease.ErrExpired, "a request without a lease")
			assert.True(t, len(complete) == 0, "a request arrived without a lease")
			l.Renew(clock.Now())
			assert.NoError(t, post(""), "a request after a renewal")
		})
	}
}

// TestAPeerThatReadsNothingForLongerThanATermIsNotReset: as long as the lease is renewed, how long
// the peer may take is not for the lease to say.
func TestAPeerThatReadsNothingForLongerThanATermIsNotReset(t *testing.T) {
	t.Parallel()
	clock := lease.System()
	l := lease.New(2*time.Second, clock)
	l.Renew(clock.Now())
	renewing, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-renewing:
				return
			case <-time.After(50 * time.Millisecond):
				l.Renew(clock.Now())
			}
		}
	}()
	near, far := pair(t)
	written := write(t, l.Conn(near), far)
	time.Sleep(6 * time.Second)
	n, err := io.Copy(io.Discard, io.LimitReader(far, large-1))
	assert.Equal(t, n, large-1, "bytes of", "arrived", err)
	assert.Equal(t, require.Value(written())(t), large, "bytes of", "were written")
	close(renewing)
	<-stopped
}

// TestAConnectionThatWasResetWithoutALeaseSaysSo, so that nobody blames the peer, although the
// lease is there again.
func TestAConnectionThatWasResetWithoutALeaseSaysSo(t *testing.T) {
	t.Parallel()
	near, far := pair(t)
	l, c := newLease()
	conn := l.Conn(near)
	written := write(t, conn, far)
	c.Advance(term)
	l.Renew(c.Now())
	_, err := written()
	assert.ErrorIs(t, err, lease.ErrExpired, "the write that was blocked")
	_, err = conn.Read(make([]byte, 1))
	assert.ErrorIs(t, err, lease.ErrExpired, "a read")
	_, err = conn.Write([]byte("x"))
	assert.ErrorIs(t, err, lease.ErrExpired, "a later write")
}
