//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

// buildNATS builds the server version in go.mod.
func buildNATS(t testing.TB) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "nats-server")
	text, err := exec.Command("go", "build", "-o", program, "github.com/nats-io/nats-server/v2").CombinedOutput()
	require.NoError(t, err, "build the NATS server", string(text))
	return program
}

// natsServer is a server that keeps its address and its streams when it is restarted.
type natsServer struct {
	program, config, address string
	running                  *process
}

// startNATS starts a server with JetStream and further settings.
func startNATS(t testing.TB, program, settings string) *natsServer {
	t.Helper()
	folder := t.TempDir()
	s := &natsServer{program: program, config: filepath.Join(folder, "nats.conf"), address: loopback.Free(t)}
	text := fmt.Sprintf("listen: %q\njetstream {store_dir: %q}\n%s\n", s.address, folder, settings)
	require.NoError(t, os.WriteFile(s.config, []byte(text), 0o600))
	s.start(t)
	return s
}

// start starts the server and waits until it accepts connections.
func (s *natsServer) start(t testing.TB) {
	t.Helper()
	s.running = start(t, exec.Command(s.program, "-c", s.config))
	eventually(t, 30*time.Second, func() error {
		if !s.running.running() {
			t.Fatalf("the NATS server ended at once\n%s", s.running.output.end())
		}
		conn, err := net.DialTimeout("tcp", s.address, time.Second)
		if err == nil {
			conn.Close()
		}
		return err
	})
}

// reader connects a reader until the test ends.
func (s *natsServer) reader(t testing.TB, login ...nats.Option) *natsReader {
	t.Helper()
	r, err := dialNATS(s.address, login...)
	if err != nil {
		t.Fatalf("%v\n%s", err, s.running.output.end())
	}
	t.Cleanup(r.conn.Close)
	return r
}

// startNATSCluster starts three servers that share their streams.
func startNATSCluster(t testing.TB, program string) map[string]*natsServer {
	t.Helper()
	names := []string{"n1", "n2", "n3"}
	var routes []string
	for _, port := range loopback.FreePorts(t, len(names)) {
		routes = append(routes, fmt.Sprintf("127.0.0.1:%d", port))
	}
	servers := make(map[string]*natsServer)
	for i, name := range names {
		servers[name] = startNATS(t, program, fmt.Sprintf("server_name: %s\ncluster {name: c, listen: %q, routes: [%s]}",
			name, routes[i], "nats://"+strings.Join(routes, ", nats://")))
	}
	return servers
}
