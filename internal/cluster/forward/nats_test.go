package forward_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"ndrbridge/internal/cluster/forward"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

const subject = "ndr.test.shard.03"

// natsCluster runs a cluster of NATS servers.
func natsCluster(t *testing.T, n int, change func(*server.Options)) []*server.Server {
	t.Helper()
	var servers []*server.Server
	for i := range n {
		s := loopback.NATS(t, func(o *server.Options) {
			o.JetStream = false
			o.ServerName = fmt.Sprintf("n%d", i)
			o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: server.RANDOM_PORT}
			if i > 0 {
				o.Routes = []*url.URL{{Scheme: "nats", Host: servers[0].ClusterAddr().String()}}
			}
			if change != nil {
				change(o)
			}
		})
		servers = append(servers, s)
	}
	return servers
}

func connect(t *testing.T, s *server.Server) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(s.ClientURL(), nats.ReconnectWait(20*time.Millisecond), nats.MaxReconnects(-1), nats.IgnoreDiscoveredServers())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

func serve(t *testing.T, nc *nats.Conn, h http.HandlerFunc) *forward.Server {
	t.Helper()
	s, err := forward.Serve(nc, subject, h, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(s.Close)
	require.NoError(t, nc.Flush())
	return s
}

func client(nc *nats.Conn) *http.Client {
	return &http.Client{Transport: forward.NewTransport(nc, subject)}
}

// eventually calls do until it returns nil.
func eventually(t *testing.T, do func() error) {
	t.Helper()
	var err error
	for range 500 {
		if err = do(); err == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal(err)
}

func echo(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }

// post sends a body to a server that echoes it.
func post(c *http.Client, body []byte) error {
	resp, err := c.Post("http://localhost/", "", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err == nil && !bytes.Equal(got, body) {
		err = fmt.Errorf("%d bytes came back, want %d", len(got), len(body))
	}
	return err
}

func TestRequestsCrossNATSServers(t *testing.T) {
	for _, c := range []struct {
		name       string
		maxPayload int32
	}{{"with the default max_payload", 1 << 20}, {"with a small max_payload", 8 << 10}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			servers := natsCluster(t, 3, func(o *server.Options) { o.MaxPayload = c.maxPayload })
			serve(t, connect(t, servers[0]), echo)
			for _, s := range servers {
				asking := client(connect(t, s))
				eventually(t, func() error { return post(asking, nil) })
				var all sync.WaitGroup
				for i := range 8 {
					all.Go(func() {
						if err := post(asking, bytes.Repeat([]byte("0123456789abcdef"), i*40_000)); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
			}
		})
	}
}

func TestNobodyServes(t *testing.T) {
	t.Parallel()
	servers := natsCluster(t, 2, nil)
	nc := connect(t, servers[0])
	for _, s := range servers {
		if _, err := client(connect(t, s)).Get("http://localhost/"); !errors.Is(err, forward.ErrNobody) {
			t.Errorf("%v, want ErrNobody", err)
		}
	}
	serving := serve(t, nc, echo)
	asking := client(connect(t, servers[0]))
	if err := post(asking, []byte("a")); err != nil {
		t.Error(err)
	}
	serving.Close()
	require.NoError(t, nc.Flush())
	if err := post(asking, []byte("a")); !errors.Is(err, forward.ErrNobody) {
		t.Errorf("%v, want ErrNobody", err)
	}
}

// While NATS servers restart, a response either goes on without a gap or ends with ErrLost,
// and new requests succeed afterwards.
func TestANATSServerRestarts(t *testing.T) {
	t.Parallel()
	port := 0
	start := func() *server.Server {
		return loopback.NATS(t, func(o *server.Options) {
			o.JetStream = false
			if port != 0 {
				o.Port = port
			}
		})
	}
	s := start()
	port = s.Addr().(*net.TCPAddr).Port
	serving, asking := connect(t, s), connect(t, s)
	serve(t, serving, func(w http.ResponseWriter, r *http.Request) {
		for n := uint32(0); r.URL.Path == "/numbers"; n++ {
			if binary.Write(w, binary.BigEndian, n) != nil {
				return
			}
		}
		echo(w, r)
	})
	c := client(asking)
	for range 3 {
		eventually(t, func() error { return post(c, bytes.Repeat([]byte("a"), 300_000)) })
		resp, err := c.Get("http://localhost/numbers")
		require.NoError(t, err)
		restarted, ended := make(chan struct{}), make(chan error)
		go func() {
			left := 10_000 // numbers to read after the restart
			for want := uint32(0); left > 0; want++ {
				var n uint32
				if err := binary.Read(resp.Body, binary.BigEndian, &n); err != nil {
					ended <- err
					return
				}
				if n != want {
					ended <- fmt.Errorf("read %d, want %d", n, want)
					return
				}
				select {
				case <-restarted:
					left--
				default:
				}
			}
			ended <- nil
		}()
		s.Shutdown()
		s.WaitForShutdown()
		s = start()
		close(restarted)
		if err := <-ended; err != nil && !errors.Is(err, forward.ErrLost) {
			t.Error(err)
		}
		resp.Body.Close()
	}
}

func TestWithoutAConnection(t *testing.T) {
	t.Parallel()
	s := loopback.NATS(t, nil)
	nc := connect(t, s)
	serve(t, nc, func(http.ResponseWriter, *http.Request) { t.Error("an old request was carried out") })
	s.Shutdown()
	eventually(t, func() error {
		if nc.IsConnected() {
			return errors.New("still connected")
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/", nil)
	require.NoError(t, err)
	if _, err := client(nc).Do(r); !errors.Is(err, forward.ErrLost) {
		t.Errorf("%v, want ErrLost", err)
	}
}
