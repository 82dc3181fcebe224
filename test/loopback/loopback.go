// Package loopback provides servers on loopback for the tests of several packages: a NATS
// server, a webhook receiver, and addresses that refuse or ignore connections. All of them
// end with the test.
package loopback

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Closed returns an address, host and port, that refuses connections.
func Closed(t testing.TB) string {
	t.Helper()
	l := listen(t)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

// Free returns an address, host and port, at which one process after the other can listen:
// its port is below the system's range of ephemeral ports.
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

// Silent returns an address, host and port, at which connections are accepted and never
// answered.
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
