// Package loopback provides servers on loopback for the tests of several packages: a NATS
// server, a webhook receiver, and addresses that refuse or ignore connections. All of them
// end with the test.
package loopback

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Closed returns an address, host and port, that refuses connections. It is that of a
// connection's end, so that no listener can take it before the test ends.
func Closed(t testing.TB) string {
	t.Helper()
	c, err := net.Dial("tcp", Silent(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.LocalAddr().String()
}

// Free returns an address, host and port, at which one process after the other can listen,
// as FreePorts does.
func Free(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(FreePorts(t, 1)[0]))
}

// FreePorts returns n different free ports, as Ports does.
func FreePorts(t testing.TB, n int) []int {
	t.Helper()
	ports, err := Ports(n)
	if err != nil {
		t.Fatal(err)
	}
	return ports
}

// Ports returns n different free ports. They are below the system's range of ephemeral
// ports, so that no listener that lets the system choose takes one.
func Ports(n int) (ports []int, err error) {
	for range 100 * n {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(20_000+rand.IntN(10_000))))
		if err != nil {
			continue
		}
		defer l.Close() // once all are chosen, so that they differ
		if ports = append(ports, l.Addr().(*net.TCPAddr).Port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("%d of %d ports are free", len(ports), n)
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
