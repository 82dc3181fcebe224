// Package loopback has what the tests of several packages meet on loopback: a NATS
// server, a webhook's receiver, and addresses where nobody answers. All of it ends with
// the test.
package loopback

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Closed returns an address, host and port, where nobody listens.
func Closed(t testing.TB) string {
	t.Helper()
	l := listen(t)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

// Free returns an address, host and port, that one process after the other can listen at:
// its port is below those that the system gives to connections.
func Free(t testing.TB) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(20_000+rand.IntN(10_000))))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return l.Addr().String()
	}
	t.Fatal("no port is free")
	return ""
}

// Silent returns an address, host and port, where connections are made and never
// answered, and that nobody else can listen at.
func Silent(t testing.TB) string {
	t.Helper()
	l := listen(t)
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}
