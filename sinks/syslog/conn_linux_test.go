package syslog

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ndrbridge/sinks/sinktest"
)

// A host that loses its power ends no connection: only its silence shows that.
func TestASilentHostIsNoticedBeforeTheTailExpires(t *testing.T) {
	r := newReceiver(t, OctetCounting, nil)
	s := open(t, Options{Address: r.addr(), Network: TCP})
	if err := s.Send(t.Context(), sinktest.Events(1, 1, 200)); err != nil {
		t.Fatal(err)
	}
	raw, err := s.transport.(*stream).conn.raw.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	option := func(name int) (value int) {
		if control := raw.Control(func(fd uintptr) { value, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, name) }); control != nil || err != nil {
			t.Fatal(control, err)
		}
		return value
	}
	seconds := option(unix.TCP_KEEPIDLE) + option(unix.TCP_KEEPINTVL)*option(unix.TCP_KEEPCNT)
	if silence := time.Duration(seconds) * time.Second; silence >= tailAge {
		t.Errorf("the connection of a silent host ends after %v, tailAge is %v", silence, tailAge)
	}
}
