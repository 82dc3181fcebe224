package natsserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ndrbridge/checkpoint/replicated"
	"ndrbridge/configs"
	"ndrbridge/test/assert"
	"ndrbridge/test/certificate"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

// trio is a cluster of three members on this machine.
type trio struct {
	t         *testing.T
	authority tls.Certificate
	ca        string // the path of its file
	peers     []string
	members   [3]*member
}

// member is a member of a trio.
type member struct {
	config *configs.Cluster
	log    *output
	server *Server // nil: it does not run
}

// newTrio returns a trio whose members do not run.
func newTrio(t *testing.T) *trio {
	r := &trio{t: t, authority: certificate.New(t, "authority", time.Now().Add(time.Hour), nil), ca: filepath.Join(t.TempDir(), "ca.pem")}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.authority.Certificate[0]})
	require.NoError(t, os.WriteFile(r.ca, text, 0o600))
	for _, port := range loopback.FreePorts(t, len(r.members)) {
		r.peers = append(r.peers, fmt.Sprint("127.0.0.1:", port))
	}
	for i := range r.members {
		r.members[i] = &member{config: r.config(fmt.Sprint("member-", i), r.peers[i], &r.authority), log: new(output)}
	}
	return r
}

// config returns the configuration of a member with a certificate that authority signed.
func (r *trio) config(name, listen string, authority *tls.Certificate) *configs.Cluster {
	folder := r.t.TempDir()
	cert, key := certificate.Files(r.t, folder, name, certificate.New(r.t, "127.0.0.1", time.Now().Add(time.Hour), authority))
	return &configs.Cluster{Name: "prod", Member: name, Replicas: 3, NATS: configs.ClusterNATS{Embedded: &configs.Embedded{
		Listen: listen, Peers: r.peers, Folder: filepath.Join(folder, "nats"), TLS: configs.EmbeddedTLS{CertFile: cert, KeyFile: key, CAFile: r.ca},
	}}}
}

// start starts members, which are closed when the test ends.
func (r *trio) start(members ...int) {
	for _, i := range members {
		m := r.members[i]
		m.server = start(m.config, slog.New(slog.NewTextHandler(m.log, nil)), nil)
		r.t.Cleanup(func() { r.stop(i) })
	}
}

// stop closes a member, if it runs.
func (r *trio) stop(i int) {
	r.t.Helper()
	if m := r.members[i]; m.server != nil {
		require.NoError(r.t, closeIn(m.server, time.Minute))
		m.server = nil
	}
}

func closeIn(s *Server, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return s.Close(ctx)
}

// ready waits until members are ready.
func (r *trio) ready(members ...int) {
	r.t.Helper()
	for _, i := range members {
		await(r.t, func() error { return r.members[i].server.Ready() })
	}
}

// await waits until a function returns no error.
func await(t *testing.T, try func() error) {
	t.Helper()
	err := try()
	for deadline := time.Now().Add(20 * time.Second); err != nil; err = try() {
		require.True(t, time.Now().Before(deadline), "gave up waiting", err)
		time.Sleep(20 * time.Millisecond)
	}
}

// output is what a member logs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// has returns an error unless the output has a line with all words.
func (o *output) has(words ...string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
lines:
	for line := range strings.Lines(o.text.String()) {
		for _, word := range words {
			if !strings.Contains(line, word) {
				continue lines
			}
		}
		return nil
	}
	return fmt.Errorf("no line has %q:\n%s", words, o.text.String())
}

// dialer makes nats.go connect by a function.
type dialer func(context.Context) (net.Conn, error)

func (d dialer) Dial(string, string) (net.Conn, error) { return d(context.Background()) }

// connect connects a client to a member.
func connect(t *testing.T, dial dialer, options ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect("nats://member", append(options, nats.SetCustomDialer(dial), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))...)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

func stream(name string) jetstream.StreamConfig {
	return jetstream.StreamConfig{Name: name, Subjects: []string{"ndr.prod.log.1"}, Replicas: 3}
}

// publish publishes a message, and returns its sequence number.
func publish(js jetstream.JetStream, text string) (uint64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	ack, err := js.Publish(ctx, "ndr.prod.log.1", []byte(text))
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

func TestServersFormAClusterInAnyOrder(t *testing.T) {
	t.Parallel()
	r := newTrio(t)
	r.start(2)
	await(t, func() error {
		if err := r.members[2].server.Ready(); err == nil || !strings.Contains(err.Error(), "most of the 3 in cluster.nats.embedded.peers must be connected, and all of them the first time; this one is connected to none of the others") {
			return fmt.Errorf("alone, it reports %v", err)
		}
		return nil
	})
	r.start(0, 1)
	r.ready(0, 1, 2)
	for i := range r.members {
		await(t, func() error {
			if n := connected(r.members[i].server.state.Load().running); len(n) != 2 {
				return fmt.Errorf("member %d is connected to %q", i, n)
			}
			return nil
		})
	}

	nc := connect(t, r.members[0].server.Dial)
	js := require.Value(jetstream.New(nc))(t)
	await(t, func() error { _, err := js.CreateStream(t.Context(), stream("NDR_prod_1")); return err })
	require.Equal(t, require.Value(publish(js, "one"))(t), 1)
	r.stop(1)
	await(t, func() error { _, err := publish(js, "two"); return err })
	r.stop(2)
	n, err := publish(js, "three")
	assert.Error(t, err, "message", n, "was stored by one of three servers")
	r.start(1)
	r.ready(0, 1)
	await(t, func() error { _, err := publish(js, "four"); return err })
	r.stop(0)
	r.start(2)
	r.ready(1, 2)
	js = require.Value(jetstream.New(connect(t, r.members[2].server.Dial)))(t)
	await(t, func() error { _, err := publish(js, "five"); return err })
	for i := range r.members {
		for _, text := range []string{"will not be verified", "invalid port"} {
			assert.Error(t, r.members[i].log.has(text), "member", i, "logged", text)
		}
	}
}

func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	foreign := certificate.New(t, "authority", time.Now().Add(time.Hour), nil)
	r := newTrio(t)
	r.start(0)
	await(t, func() error { return r.members[0].server.state.Load().err })
	address := r.peers[0]
	other := certificate.New(t, "other.example", time.Now().Add(time.Hour), &r.authority)
	expired := certificate.New(t, "127.0.0.1", time.Now().Add(-time.Hour), &r.authority)
	unknown := certificate.New(t, "127.0.0.1", time.Now().Add(time.Hour), &foreign)
	for _, test := range []struct {
		name string
		own  []tls.Certificate
		log  string
	}{
		{"without a certificate", nil, "client didn't provide a certificate"},
		{"of another authority", []tls.Certificate{unknown}, "unknown authority"},
		{"of another host", []tls.Certificate{other}, "CN=other.example is valid for none of the hosts in cluster.nats.embedded.peers"},
		{"expired", []tls.Certificate{expired}, "expired"},
	} {
		t.Run(test.name, func(t *testing.T) {
			conn, err := tls.Dial("tcp", address, &tls.Config{Certificates: test.own, InsecureSkipVerify: true})
			if err == nil { // with TLS 1.3, the server verifies later
				defer conn.Close()
				_, err = conn.Read(make([]byte, 1))
			}
			assert.True(t, err != nil && !errors.Is(err, os.ErrDeadlineExceeded), "it may connect", err)
			await(t, func() error { return r.members[0].log.has("TLS route handshake error", test.log) })
		})
	}
	t.Run("without TLS", func(t *testing.T) {
		if nc, err := nats.Connect("nats://"+address, nats.Timeout(10*time.Second)); err == nil {
			nc.Close()
			t.Error("a client may connect")
		}
	})
	t.Run("a silent one", func(t *testing.T) {
		conn := require.Value(net.Dial("tcp", address))(t)
		defer conn.Close()
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(30*time.Second)))
		_, err := conn.Read(make([]byte, 1))
		assert.True(t, err != nil && !errors.Is(err, os.ErrDeadlineExceeded), "it is not disconnected", err)
	})
	t.Run("a server with a foreign certificate", func(t *testing.T) {
		c := r.config("member-1", r.peers[1], &foreign)
		s := start(c, slog.New(slog.DiscardHandler), nil)
		defer closeIn(s, time.Minute)
		await(t, func() error {
			if err := s.Ready(); err == nil || !strings.Contains(err.Error(), "cluster.nats.embedded.tls.cert_file: the other members would refuse this certificate") {
				return fmt.Errorf("got %v", err)
			}
			return nil
		})
	})
	t.Run("a client of TCP", func(t *testing.T) {
		r.members[1].server = start(r.members[1].config, slog.New(slog.DiscardHandler), func(o *server.Options) { o.Port = server.RANDOM_PORT })
		defer r.stop(1)
		await(t, func() error { return r.members[1].server.state.Load().err })
		running := r.members[1].server.state.Load().running
		if nc, err := nats.Connect(running.ClientURL()); !errors.Is(err, nats.ErrAuthorization) {
			nc.Close()
			t.Error("it may connect:", err)
		}
	})
	ports := r.members[0].server.state.Load().running.PortsInfo(time.Second)
	assert.True(t, ports == nil || len(ports.Nats)+len(ports.Monitoring)+len(ports.Profile)+len(ports.WebSocket) == 0, "it listens at", ports)
	a := r.members[0].server.state.Load().running.Addr()
	assert.True(t, a == nil, "it listens for clients at", a)
}

func TestClientsHaveTheRightsOfAMember(t *testing.T) {
	t.Parallel()
	r := newTrio(t)
	r.start(0, 1, 2)
	r.ready(0, 1, 2)
	for name, dial := range map[string]dialer{"in the process": r.members[0].server.Dial, "by the socket": DialMember(r.members[0].config.NATS.Embedded)} {
		t.Run(name, func(t *testing.T) {
			refused := make(chan error, 10)
			nc := connect(t, dial, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
			for _, subject := range []string{"ndr.other.log.1", "$JS.API.STREAM.DELETE.NDR_prod_1", "$SYS.REQ.SERVER.PING"} {
				require.NoError(t, nc.Publish(subject, nil))
				assert.ErrorIs(t, <-refused, nats.ErrPermissionViolation, subject)
			}
			_, err := nc.SubscribeSync("ndr.prod.members")
			assert.NoError(t, err)
			_, err = nc.Request("$JS.API.INFO", nil, 5*time.Second)
			assert.NoError(t, err)
		})
	}
	info := require.Value(os.Stat(socket(r.members[0].config.NATS.Embedded)))(t)
	assert.Equal(t, info.Mode().Perm(), 0o600, "the socket has the mode", info.Mode())
}

// The cluster's own code works with the rights of a member.
func TestALogIsStored(t *testing.T) {
	t.Parallel()
	r := newTrio(t)
	r.start(0, 1, 2)
	r.ready(0, 1, 2)
	nc := connect(t, r.members[0].server.Dial, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { t.Error(err) }))
	var storage *replicated.JetStream
	await(t, func() (err error) {
		storage, err = replicated.OpenJetStream(t.Context(), nc, replicated.JetStreamOptions{Name: "prod", Replicas: 3})
		return err
	})
	defer storage.Close()
	await(t, func() error { _, _, err := storage.Generation(t.Context(), 1, true); return err })
	assert.Empty(t, storage.Warnings())
}

func TestAFullStoreRefusesMessages(t *testing.T) {
	t.Parallel()
	r := newTrio(t)
	for i, m := range r.members {
		m.server = start(m.config, slog.New(slog.DiscardHandler), func(o *server.Options) { o.JetStreamMaxStore = 1 << 20 })
		t.Cleanup(func() { r.stop(i) })
	}
	r.ready(0, 1, 2)
	js := require.Value(jetstream.New(connect(t, r.members[0].server.Dial)))(t)
	await(t, func() error { _, err := js.CreateStream(t.Context(), stream("NDR_prod_1")); return err })
	text := strings.Repeat("x", 100<<10)
	for n := 0; ; n++ {
		_, err := publish(js, text)
		var refused *jetstream.APIError
		if errors.As(err, &refused) && refused.ErrorCode == 10023 {
			break
		}
		require.True(t, n <= 100, "it stores all", err)
	}
}

func TestJetStreamIsStartedAgain(t *testing.T) {
	t.Parallel()
	r := newTrio(t)
	r.start(0, 1, 2)
	r.ready(0, 1, 2)
	nc := connect(t, r.members[0].server.Dial)
	require.NoError(t, r.members[0].server.state.Load().running.ShutdownJetStream()) // as if its disk were full
	await(t, func() error {
		if err := r.members[0].server.Ready(); err == nil || !strings.Contains(err.Error(), "see whether the disk is full") {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})
	r.ready(0)
	await(t, func() error { _, err := nc.Request("$JS.API.INFO", nil, time.Second); return err })
}

func TestAPortInUseIsReported(t *testing.T) {
	t.Parallel()
	r := newTrio(t)
	l := require.Value(net.Listen("tcp", r.peers[0]))(t)
	r.start(0)
	await(t, func() error {
		if err := r.members[0].server.Ready(); err == nil || !strings.Contains(err.Error(), "address already in use") {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})
	assert.NoError(t, r.members[0].log.has("does not run", "address already in use"))
	l.Close()
	r.start(1, 2)
	r.ready(0, 1, 2)
}

func TestCloseLeaksNoGoroutines(t *testing.T) {
	round := func() {
		r := newTrio(t)
		r.start(0, 1, 2)
		r.ready(0, 1, 2)
		nc := connect(t, DialMember(r.members[0].config.NATS.Embedded))
		began := time.Now()
		for i := range r.members {
			r.stop(i)
		}
		took := time.Since(began)
		assert.True(t, took <= 30*time.Second, "Close took", took)
		nc.Close()
	}
	round() // libraries start some once
	before := runtime.NumGoroutine()
	round()
	await(t, func() error {
		if n := runtime.NumGoroutine(); n > before {
			stacks := make([]byte, 1<<20)
			return fmt.Errorf("%d goroutines, %d before:\n%s", n, before, stacks[:runtime.Stack(stacks, true)])
		}
		return nil
	})
}

func TestCloseIsBounded(t *testing.T) {
	s := &Server{end: func() {}, ended: make(chan struct{})}
	assert.Error(t, closeIn(s, 10*time.Millisecond), "it returned no error")
}

func TestProblemsOfConnectionsAreOneKind(t *testing.T) {
	out := new(output)
	l := &logger{log: slog.New(slog.NewTextHandler(out, nil))}
	for n := range 100 {
		l.Errorf(fmt.Sprintf("10.0.0.1:%d - rid:%d - TLS route handshake error: %%v", 40000+n, n), errors.New("reset"))
	}
	assert.Equal(t, strings.Count(out.text.String(), "\n"), 5)
}

// TestAFailedWriteStartsTheServerAgain reports a failed write as a log of the server does that
// stops while JetStream goes on.
func TestAFailedWriteStartsTheServerAgain(t *testing.T) {
	r := newTrio(t)
	r.start(0, 1, 2)
	r.ready(0, 1, 2)
	first := r.members[0].server.state.Load().running
	first.Errorf("RAFT [x - S-R3F-y] Critical write error: %v", errors.New("file too large"))
	await(t, func() error { return r.members[0].log.has("does not run", "see whether the disk is full") })
	await(t, func() error {
		if r.members[0].server.state.Load().running == first {
			return errors.New("it was not started again")
		}
		return r.members[0].server.Ready()
	})
}
