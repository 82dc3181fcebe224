package loopback

import (
	"net"
	"sync"
	"testing"
)

// Serve listens until the test ends and calls handle for each connection, in a goroutine
// of its own. The connection is closed when handle returns, and at the end of the test,
// which waits for all of them. It returns the address, host and port.
func Serve(t testing.TB, handle func(net.Conn)) string {
	t.Helper()
	var (
		l       = listen(t)
		serving sync.WaitGroup
		mu      sync.Mutex
		open    = make(map[net.Conn]bool)
		ended   bool
	)
	serve := func(c net.Conn) {
		mu.Lock()
		open[c] = true
		late := ended
		mu.Unlock()
		if !late {
			handle(c)
		}
		c.Close()
		mu.Lock()
		delete(open, c)
		mu.Unlock()
	}
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		ended = true
		for c := range open {
			c.Close()
		}
		mu.Unlock()
		serving.Wait()
	})
	return l.Addr().String()
}
