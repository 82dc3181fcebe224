// Package loopback has what the tests of several packages meet on loopback: a NATS
// server, a webhook's receiver, and addresses where nobody answers. All of it ends with
// the test.
package loopback

import (
	"net"
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
