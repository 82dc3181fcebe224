package natswire_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	nats "github.com/nats-io/nats.go"

	"ndrbridge/internal/natswire"
	"ndrbridge/test/assert"
	"ndrbridge/test/loopback"
	"ndrbridge/test/natsserver"
	"ndrbridge/test/require"
)

// connectAgain returns a connection that reconnects.
func connectAgain(ctx context.Context, url string, timeout time.Duration, options ...nats.Option) (*natswire.Conn, error) {
	return natswire.Connect(ctx, url, natswire.Options{MaxMessage: 1000},
		append(options, nats.Timeout(timeout), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1))...)
}

func TestReconnect(t *testing.T) {
	t.Run("the connection outlives its server and the context", func(t *testing.T) {
		port := loopback.FreePorts(t, 1)[0]
		start := func() (stop func()) {
			_, stop, err := natsserver.Start(t.TempDir(), func(o *server.Options) { o.Port = port })
			require.NoError(t, err)
			return stop
		}
		stop := start()
		ctx, cancel := context.WithCancel(t.Context())
		disconnected, reconnected := make(chan struct{}, 1), make(chan struct{}, 1)
		c, err := connectAgain(ctx, fmt.Sprintf("nats://127.0.0.1:%d", port), 5*time.Second,
			nats.ReconnectWait(10*time.Millisecond),
			nats.DisconnectErrHandler(func(*nats.Conn, error) { disconnected <- struct{}{} }),
			nats.ReconnectHandler(func(*nats.Conn) { reconnected <- struct{}{} }))
		require.NoError(t, err)
		defer c.Close()
		cancel()
		got := make(chan *nats.Msg, 1)
		require.Value(c.ChanSubscribe("a", got))(t)
		stop()
		<-disconnected
		assert.Error(t, c.Publish("a", nil), "a message was buffered while there was no connection")
		defer start()()
		<-reconnected
		require.NoError(t, c.Publish("a", []byte("x")))
		m := <-got
		assert.Equal(t, string(m.Data), "x")
	})
	t.Run("each connection is bounded", func(t *testing.T) {
		s, stop, err := natsserver.Start(t.TempDir(), nil)
		require.NoError(t, err)
		defer stop()
		disconnected := make(chan error, 10)
		c, err := connectAgain(t.Context(), s.ClientURL(), 5*time.Second, nats.ReconnectWait(10*time.Millisecond),
			nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { disconnected <- err }))
		require.NoError(t, err)
		defer c.Close()
		other := require.Value(nats.Connect(s.ClientURL()))(t)
		defer other.Close()
		require.Value(c.SubscribeSync("a"))(t)
		for range 2 {
			for c.FlushTimeout(5*time.Second) != nil { // until it is connected again
				time.Sleep(time.Millisecond)
			}
			require.NoError(t, errors.Join(other.Publish("a", make([]byte, 1001)), other.Flush()))
			assert.ErrorIs(t, <-disconnected, natswire.ErrProtocol)
		}
	})
	t.Run("a cut ends an attempt to connect again, and all calls", func(t *testing.T) {
		s, stop, err := natsserver.Start(t.TempDir(), nil)
		require.NoError(t, err)
		defer stop()
		servers, silent := make(chan string, 1), make(chan struct{}, 10)
		servers <- s.Addr().String()
		relay := loopback.Serve(t, func(c net.Conn) {
			select {
			case address := <-servers:
				server, err := net.Dial("tcp", address)
				if err != nil {
					return
				}
				defer server.Close()
				go func() { _, _ = io.Copy(server, c) }()
				_, _ = io.Copy(c, server)
			default: // nothing is sent from now on
				silent <- struct{}{}
				_, _ = io.Copy(io.Discard, c)
			}
		})
		c, err := connectAgain(t.Context(), "nats://"+relay, time.Hour, nats.ReconnectWait(time.Millisecond), nats.ReconnectJitter(0, 0))
		require.NoError(t, err)
		stop()
		<-silent
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.Cut()
			for range 50 { // meanwhile it would try again
				_ = c.Publish("a", nil)
				time.Sleep(time.Millisecond)
			}
			c.Close()
		}()
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			t.Error("the connection waits for a server that does not answer")
		}
	})
	t.Run("the end of the context ends the first attempt", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer time.AfterFunc(20*time.Millisecond, cancel).Stop()
		if c, err := connectAgain(ctx, "nats://"+loopback.Silent(t), time.Hour); err == nil {
			c.Close()
			t.Error("it connected")
		}
	})
}
