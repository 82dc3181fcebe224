package endpoint_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"ndrbridge/configs"
	"ndrbridge/internal/pipeline/endpoint"
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
			if err := endpoint.CheckCluster(cluster); err != nil {
				t.Error(err)
			}
			conn, err := endpoint.ConnectCluster(t.Context(), cluster, slog.New(slog.DiscardHandler))
			require.NoError(t, err)
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
		if time.Now().After(deadline) {
			t.Fatalf("gave up waiting: connected %t, want %t", !want, want)
		}
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
	conn, err := endpoint.ConnectCluster(t.Context(), cluster, slog.New(slog.NewTextHandler(log, nil)))
	require.NoError(t, err)
	defer conn.Close()
	for _, subject := range []string{"first", "first", "first", "second"} {
		require.NoError(t, conn.Publish(subject, nil))
	}
	for _, want := range []string{"first", "second"} {
		if text := <-log.texts; !strings.Contains(text, want) {
			t.Errorf("logged %s, want the error about %s", text, want)
		}
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
	conn, err := endpoint.ConnectCluster(t.Context(), cluster, slog.New(slog.DiscardHandler))
	if err == nil {
		conn.Close()
		t.Fatal("it connected")
	}
	if text := err.Error(); strings.Contains(text, "s3cret") || !strings.Contains(text, "cluster.nats.url") || !strings.Contains(text, "Authorization") {
		t.Errorf("got %s", text)
	}
	empty := filepath.Join(t.TempDir(), "creds")
	require.NoError(t, os.WriteFile(empty, []byte("s3cret"), 0o600))
	missing := clusterOf(t, `url: "nats://127.0.0.1", creds_file: `+empty)
	if err := endpoint.CheckCluster(missing); err == nil || !strings.Contains(err.Error(), "creds_file") {
		t.Errorf("got %v", err)
	}
}
