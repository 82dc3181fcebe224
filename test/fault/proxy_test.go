package fault_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/test/assert"
	"ndrbridge/test/fault"
	"ndrbridge/test/require"
)

// server is a server that echoes what its clients send.
type server struct {
	listener net.Listener
	running  sync.WaitGroup
	received chan []byte // the data of each client, after its connection ended
}

func serve(t interface {
	require.T
	Cleanup(func())
}) *server {
	listener := require.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := &server{listener: listener, received: make(chan []byte, 16)}
	s.running.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			s.running.Go(func() { s.answer(c) })
		}
	})
	t.Cleanup(func() { listener.Close(); s.running.Wait() })
	return s
}

// answer echoes received data at once and records it.
func (s *server) answer(c net.Conn) {
	defer c.Close()
	var all []byte
	defer func() { s.received <- all }()
	for piece := make([]byte, 4096); ; {
		n, err := c.Read(piece)
		all = append(all, piece[:n]...)
		if err != nil {
			return
		}
		if _, err := c.Write(piece[:n]); err != nil {
			return
		}
	}
}

func proxy(t interface {
	require.T
	Error(...any)
	Cleanup(func())
}, s *server, plan fault.Plan) *fault.Proxy {
	p := require.Value(fault.New(s.listener.Addr().String()))(t)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	p.Follow(plan)
	return p
}

func dial(t interface {
	require.T
	Cleanup(func())
}, p *fault.Proxy) *net.TCPConn {
	c := require.Value(net.Dial("tcp", p.Addr().String()))(t)
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

// soon is a timeout: long enough for immediate responses, short enough to wait for none.
const soon = 200 * time.Millisecond

// plan returns a plan that injects one kind of fault into every connection, after one byte.
func plan(kind fault.Kind, most time.Duration) fault.Plan {
	return fault.Plan{Seed: 1, Likely: 1, Kinds: []fault.Kind{kind}, Within: 1, Longest: most}
}

func TestEachFault(t *testing.T) {
	request := []byte("request")
	for _, c := range []struct {
		name string
		kind fault.Kind
		most time.Duration // the maximum duration of the fault
		see  func(t *testing.T, s *server, p *fault.Proxy, c *net.TCPConn)
	}{
		{"a reset cuts the request, and both ends see it", fault.Reset, soon, func(t *testing.T, s *server, _ *fault.Proxy, c *net.TCPConn) {
			_, err := io.ReadAll(c)
			assert.ErrorIs(t, err, syscall.ECONNRESET, "the client sees")
			received := <-s.received
			assert.True(t, len(received) <= 1, "the server received", string(received))
		}},
		{"a stall passes the whole request on in the end", fault.Stall, soon, func(t *testing.T, _ *server, _ *fault.Proxy, c *net.TCPConn) {
			answer := make([]byte, len(request))
			_, err := io.ReadFull(c, answer)
			assert.True(t, err == nil && bytes.Equal(answer, request), string(answer), err)
		}},
		{"what a stall held when the client gave up never arrives", fault.Stall, time.Minute, func(t *testing.T, s *server, _ *fault.Proxy, c *net.TCPConn) {
			c.Close()
			received := <-s.received
			assert.True(t, len(received) <= 1, "the server received", string(received))
		}},
		{"a half-open connection never comes to the server, and has no answer", fault.HalfOpen, soon, func(t *testing.T, s *server, _ *fault.Proxy, c *net.TCPConn) {
			silent(t, c, 0)
			c.Close()
			assert.True(t, len(s.received) == 0, "the server received a request")
		}},
		{"a deaf connection brings the request and no answer", fault.Mute, soon, func(t *testing.T, s *server, _ *fault.Proxy, c *net.TCPConn) {
			silent(t, c, 1)
			c.Close()
			received := <-s.received
			assert.True(t, bytes.Equal(received, request), "the server received", string(received))
		}},
		{"a lost answer is that of a request that arrived", fault.Lost, soon, func(t *testing.T, s *server, _ *fault.Proxy, c *net.TCPConn) {
			answer, err := io.ReadAll(c)
			assert.True(t, errors.Is(err, syscall.ECONNRESET) && len(answer) <= 1, "the client sees", string(answer), err)
			received := <-s.received
			assert.True(t, len(received) != 0, "the server received nothing")
		}},
		{"a delay loses nothing", fault.Delay, soon, func(t *testing.T, _ *server, _ *fault.Proxy, c *net.TCPConn) {
			answer := make([]byte, len(request))
			_, err := io.ReadFull(c, answer)
			assert.True(t, err == nil && bytes.Equal(answer, request), string(answer), err)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t)
			p := proxy(t, s, plan(c.kind, c.most))
			client := dial(t, p)
			require.Value(client.Write(request))(t)
			for p.Injected()[c.kind] == 0 {
				time.Sleep(time.Millisecond)
			}
			c.see(t, s, p, client)
			assert.Equal(t, p.Injected()[c.kind], 1, "its count")
		})
	}
}

// silent checks that nothing but the response to at most so many bytes arrives.
func silent(t *testing.T, c *net.TCPConn, most int) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(soon)))
	answer, err := io.ReadAll(c)
	e, ok := errors.AsType[net.Error](err)
	assert.True(t, ok && e.Timeout() && len(answer) <= most, "the client receives", string(answer), err)
}

func TestDataIsUnchanged(t *testing.T) {
	for _, c := range []struct {
		name string
		plan fault.Plan
	}{
		{"in peace", fault.Plan{}},
		{"through a stall or a delay", fault.Plan{Likely: 1, Kinds: []fault.Kind{fault.Stall, fault.Delay}, Longest: 10 * time.Millisecond}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t)
			rapid.Check(t, func(t *rapid.T) {
				c.plan.Seed = rapid.Uint64().Draw(t, "seed")
				p := proxy(t, s, c.plan)
				client := dial(t, p)
				pieces := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 1, 1000), 1, 5).Draw(t, "pieces")
				var said sync.WaitGroup
				defer said.Wait()
				said.Go(func() {
					for _, piece := range pieces {
						_, err := client.Write(piece)
						assert.NoError(t, err)
					}
					assert.NoError(t, client.CloseWrite())
				})
				answer, err := io.ReadAll(client)
				if all := slices.Concat(pieces...); err != nil && p.Injected()[fault.Stall] == 0 || !bytes.Equal(answer, all[:len(answer)]) || err == nil && len(answer) < len(all) {
					t.Errorf("%d bytes of %d, %v", len(answer), len(all), err)
				}
				<-s.received
			})
		})
	}
}

func TestCalmEndsLastingFaults(t *testing.T) {
	s := serve(t)
	p := proxy(t, s, plan(fault.HalfOpen, soon))
	client := dial(t, p)
	for p.Injected()[fault.HalfOpen] == 0 {
		time.Sleep(time.Millisecond)
	}
	p.Calm()
	_, err := io.ReadAll(client)
	assert.ErrorIs(t, err, syscall.ECONNRESET)
	peaceful := dial(t, p)
	require.Value(peaceful.Write([]byte("x")))(t)
	_, err = io.ReadFull(peaceful, make([]byte, 1))
	assert.NoError(t, err)
}

func TestCut(t *testing.T) {
	exchange := func(t *testing.T, c *net.TCPConn) {
		t.Helper()
		require.Value(c.Write([]byte("x")))(t)
		require.Value(io.ReadFull(c, make([]byte, 1)))(t)
	}
	s := serve(t)
	p := proxy(t, s, fault.Plan{})
	client := dial(t, p)
	exchange(t, client)
	p.Cut()
	late := dial(t, p)
	for _, c := range []*net.TCPConn{client, late} {
		require.Value(c.Write([]byte("lost")))(t)
		silent(t, c, 0)
	}
	gone := dial(t, p)
	gone.Close()
	p.Join()
	for name, c := range map[string]*net.TCPConn{"an old": client, "a new": late} {
		_ = c.SetReadDeadline(time.Time{}) // that of silent has passed
		_, err := io.ReadAll(c)
		assert.ErrorIs(t, err, syscall.ECONNRESET, "after the cut", name, "connection sees")
	}
	// The connections of the cut reach the server as well, and end in any order.
	for received := []byte(nil); string(received) != "x"; {
		select {
		case received = <-s.received:
		case <-time.After(10 * time.Second):
			t.Fatal("the server has not received what was sent before the cut")
		}
		text := string(received)
		assert.True(t, text == "" || text == "x", "the server received", text)
	}
	exchange(t, dial(t, p))
}
