package syslog

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
)

// A host that loses its power ends no connection: only its silence shows that.
func TestASilentHostIsNoticedBeforeTheTailExpires(t *testing.T) {
	r := newReceiver(t, octetCounting, nil)
	s := open(t, Options{Address: r.addr(), Network: networkTCP})
	require.NoError(t, s.Send(t.Context(), sinktest.Events(1, 1, 200)))
	raw, err := s.transport.(*stream).conn.raw.SyscallConn()
	require.NoError(t, err)
	option := func(name int) (value int) {
		control := raw.Control(func(fd uintptr) { value, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, name) })
		require.True(t, control == nil && err == nil, control, err)
		return value
	}
	seconds := option(unix.TCP_KEEPIDLE) + option(unix.TCP_KEEPINTVL)*option(unix.TCP_KEEPCNT)
	silence := time.Duration(seconds) * time.Second
	assert.True(t, silence < tailAge, "the connection of a silent host ends after", silence, "tailAge", tailAge)
}

// A receiver that ends may have read nothing of what its system had acknowledged: the end of
// the connection counts, even if it has not been read yet.
func TestNothingIsAcknowledgedOnAConnectionThatHasEnded(t *testing.T) {
	listener := require.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	dialled := require.Value(net.Dial("tcp", listener.Addr().String()))(t)
	defer dialled.Close()
	far := require.Value(listener.Accept())(t)
	defer far.Close()
	c := &conn{Conn: dialled, raw: dialled.(*net.TCPConn), ended: make(chan struct{})} // nothing reads from it
	require.Value(c.Write([]byte("message")))(t)
	assert.NoError(t, c.acknowledged(t.Context()), "on a connection that stands")
	answered := &conn{Conn: dialled, raw: c.raw, ended: make(chan struct{}), reason: errors.New("it answered")}
	close(answered.ended)
	for range 100 { // either event may come first
		require.Equal(t, answered.acknowledged(t.Context()), answered.reason, "on a connection on which the receiver has answered")
	}
	require.Value(io.ReadFull(far, make([]byte, len("message"))))(t)
	far.Close()
	_, err := dialled.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	assert.ErrorIs(t, c.acknowledged(t.Context()), errClosed, "on a connection that the receiver has ended")
}
