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

	"ndrbridge/test/require"
)

// Closed returns an address, host and port, that refuses connections. It is that of a
// connection's end, so that no listener can take it before the test ends.
func Closed(t testing.TB) string {
	t.Helper()
	c, err := net.Dial("tcp", Silent(t))
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c.LocalAddr().String()
}

// Free returns an address, host and port, at which one process after the other can listen
// until the test ends.
func Free(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(FreePorts(t, 1)[0]))
}

// FreePorts returns n different free ports, which are the test's until it ends.
func FreePorts(t testing.TB, n int) []int {
	t.Helper()
	ports, release, err := Ports(n)
	require.NoError(t, err)
	t.Cleanup(release)
	return ports
}

// Ports returns n different free ports. They are below the system's range of ephemeral
// ports, so that no listener that lets the system choose takes one, and until release is
// called, no other call returns them, in this process or in another one: a UDP socket at
// the same number reserves each.
func Ports(n int) (ports []int, release func(), err error) {
	var reserved []net.PacketConn
	release = func() {
		for _, c := range reserved {
			c.Close()
		}
	}
	for range 100 * n {
		port := 20_000 + rand.IntN(10_000)
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		c, err := net.ListenPacket("udp", address)
		if err != nil {
			continue
		}
		reserved = append(reserved, c)
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		l.Close()
		if ports = append(ports, port); len(ports) == n {
			return ports, release, nil
		}
	}
	release()
	return nil, nil, fmt.Errorf("%d of %d ports are free", len(ports), n)
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
	require.NoError(t, err)
	return l
}
