package endpoint_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"ndrbridge/configs"
	embedded "ndrbridge/internal/natsserver"
	"ndrbridge/internal/natswire"
	"ndrbridge/internal/pipeline/endpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/certificate"
	"ndrbridge/test/loopback"
	"ndrbridge/test/natsserver"
	"ndrbridge/test/require"
)

// clusterOf returns a cluster whose nats block has these keys.
func clusterOf(t *testing.T, nats string) *configs.Cluster {
	t.Helper()
	config, err := configs.Parse("test.yaml", fmt.Appendf(nil, `
state: /none/state.db
cluster: {name: c, member: a, lease: 2s, nats: {%s}}
appliances: [{name: hq, url: https://sensor.example, api_key: key}]
sinks: [{name: out, file: {path: "-"}}]
`, nats), nil)
	require.NoError(t, err)
	return config.Cluster
}

func TestConnectClusterReadsTheSecretAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	for _, c := range []struct {
		name, nats string
		requires   func(*server.Options, string)
	}{
		{"a token", "token_file: " + file, func(o *server.Options, secret string) { o.Authorization = secret }},
		{"a password", "username: u, password_file: " + file, func(o *server.Options, secret string) { o.Username, o.Password = "u", secret }},
	} {
		t.Run(c.name, func(t *testing.T) {
			port := loopback.FreePorts(t, 1)[0]
			start := func(secret string) (stop func()) {
				require.NoError(t, os.WriteFile(file, []byte(secret), 0o600))
				_, stop, err := natsserver.Start(t.TempDir(), func(o *server.Options) {
					o.Port = port
					c.requires(o, secret)
				})
				require.NoError(t, err)
				return stop
			}
			stop := start("old-secret")
			cluster := clusterOf(t, fmt.Sprintf(`url: "nats://127.0.0.1:%d", %s`, port, c.nats))
			assert.NoError(t, endpoint.CheckCluster(cluster))
			conn := require.Value(endpoint.ConnectCluster(t.Context(), cluster, nil, slog.New(slog.DiscardHandler)))(t)
			defer conn.Close()
			stop()
			awaitConnected(t, conn.Conn, false)
			defer start("new-secret")()
			awaitConnected(t, conn.Conn, true)
		})
	}
}

// awaitConnected waits until conn is connected, or no longer is.
func awaitConnected(t *testing.T, conn *nats.Conn, want bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); conn.IsConnected() != want; time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "gave up waiting: connected", !want, want)
	}
}

func TestConnectClusterLogsAnErrorOfTheServersOnce(t *testing.T) {
	s := loopback.NATS(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "u", Password: "p", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Deny: []string{"first", "second"}},
		}}}
	})
	cluster := clusterOf(t, fmt.Sprintf(`url: "nats://%s", username: u, password: p`, s.Addr()))
	log := lines{texts: make(chan string, 10)}
	conn, err := endpoint.ConnectCluster(t.Context(), cluster, nil, slog.New(slog.NewTextHandler(log, nil)))
	require.NoError(t, err)
	defer conn.Close()
	for _, subject := range []string{"first", "first", "first", "second"} {
		require.NoError(t, conn.Publish(subject, nil))
	}
	for _, want := range []string{"first", "second"} {
		assert.Contains(t, <-log.texts, want, "logged")
	}
}

// lines passes on each line of a log.
type lines struct{ texts chan string }

func (l lines) Write(p []byte) (int, error) {
	l.texts <- string(p)
	return len(p), nil
}

func TestConnectClusterHidesSecrets(t *testing.T) {
	s := loopback.NATS(t, func(o *server.Options) { o.Username, o.Password = "u", "right" })
	cluster := clusterOf(t, fmt.Sprintf(`url: "nats://u:s3cret@%s"`, s.Addr()))
	conn, err := endpoint.ConnectCluster(t.Context(), cluster, nil, slog.New(slog.DiscardHandler))
	if err == nil {
		conn.Close()
		t.Fatal("it connected")
	}
	text := err.Error()
	assert.True(t, !strings.Contains(text, "s3cret") && strings.Contains(text, "cluster.nats.url") && strings.Contains(text, "Authorization"), text)
	empty := filepath.Join(t.TempDir(), "creds")
	require.NoError(t, os.WriteFile(empty, []byte("s3cret"), 0o600))
	missing := clusterOf(t, `url: "nats://127.0.0.1", creds_file: `+empty)
	assert.ErrorContains(t, endpoint.CheckCluster(missing), "creds_file")
}

func TestConnectClusterConnectsToTheEmbeddedServer(t *testing.T) {
	folder := t.TempDir()
	cert, key := certificate.Files(t, folder, "a", certificate.New(t, "127.0.0.1", time.Now().Add(time.Hour), nil))
	ports := loopback.FreePorts(t, 3)
	cluster := clusterOf(t, fmt.Sprintf(`embedded: {listen: "127.0.0.1:%d", peers: ["127.0.0.1:%[1]d", "127.0.0.1:%d", "127.0.0.1:%d"], folder: %q, tls: {cert_file: %q, key_file: %q, ca_file: %[5]q}}`,
		ports[0], ports[1], ports[2], filepath.Join(folder, "nats"), cert, key))
	discard := slog.New(slog.DiscardHandler)
	_, err := endpoint.ConnectCluster(t.Context(), cluster, nil, discard)
	assert.True(t, err != nil && strings.Contains(err.Error(), "see whether the bridge runs here"), "while no member runs", err)
	member := embedded.Start(cluster, discard)
	defer member.Close(context.Background())
	for name, dial := range map[string]func(context.Context) (net.Conn, error){"in its process": member.Dial, "in another process": nil} {
		t.Run(name, func(t *testing.T) {
			var conn *natswire.Conn
			var err error
			for deadline := time.Now().Add(time.Minute); conn == nil && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
				conn, err = endpoint.ConnectCluster(t.Context(), cluster, dial, discard)
			}
			require.NoError(t, err)
			defer conn.Close()
			assert.Equal(t, conn.ConnectedServerName(), "a", "connected to")
			conn.Cut()
			awaitConnected(t, conn.Conn, false)
		})
	}
	require.NoError(t, os.WriteFile(key, nil, 0o600))
	assert.ErrorContains(t, endpoint.CheckCluster(cluster), "nats.embedded.tls.key_file", "without a key")
}
