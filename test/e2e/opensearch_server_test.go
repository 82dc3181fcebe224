//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

// nobody is the user that runs OpenSearch if the tests run as root, which it refuses.
const nobody = 65534

// openSearch is a node of OpenSearch without authentication.
type openSearch struct {
	url string
	*process
}

// startOpenSearch downloads and starts a node with empty data, and waits until it serves.
func startOpenSearch(t testing.TB) *openSearch {
	t.Helper()
	need(t, "java", "a Java runtime")
	need(t, "mvn", "Maven")
	archives := fetchArchives(t, "opensearch.pom.xml")
	home := t.TempDir()
	layOut(t, archives, home)
	ports := loopback.FreePorts(t, 2)
	settings := fmt.Sprintf(`
cluster.name: e2e
discovery.type: single-node
network.host: 127.0.0.1
http.port: %d
transport.port: %d
path.data: %s/data
path.logs: %s/logs
cluster.routing.allocation.disk.threshold_enabled: false
`, ports[0], ports[1], home, home)
	write(t, filepath.Join(home, "config", "opensearch.yml"), settings)
	command := exec.Command("java",
		"-Xms256m", "-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.security.manager=allow",
		"-Djava.io.tmpdir="+filepath.Join(home, "tmp"),
		"-Dopensearch.path.home="+home, "-Dopensearch.path.conf="+filepath.Join(home, "config"), "-Dopensearch.distribution.type=tar",
		"-cp", filepath.Join(archives, "*"), "org.opensearch.bootstrap.OpenSearch",
	)
	command.Dir = home
	if os.Geteuid() == 0 {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		give(t, home)
		give(t, archives)
	}
	o := &openSearch{url: fmt.Sprintf("http://127.0.0.1:%d", ports[0]), process: start(t, command)}
	eventually(t, time.Minute, func() error {
		if !o.running() {
			t.Fatalf("OpenSearch ended\n%s", o.output.end())
		}
		_, err := o.try(http.MethodGet, "/_cluster/health?wait_for_status=yellow&timeout=1s", "")
		return err
	})
	return o
}

// layOut makes the folders of OpenSearch's distribution, with its only module: the
// transport, whose archives must not be beside those of the server.
func layOut(t testing.TB, archives, home string) {
	t.Helper()
	module := filepath.Join(home, "modules", "transport-netty4")
	for _, folder := range []string{module, filepath.Join(home, "config"), filepath.Join(home, "plugins"), filepath.Join(home, "tmp")} {
		require.NoError(t, os.MkdirAll(folder, 0o755))
	}
	version := ""
	for _, pattern := range []string{"netty-*.jar", "transport-netty4-client-*.jar"} {
		found, err := filepath.Glob(filepath.Join(archives, pattern))
		require.True(t, err == nil && len(found) != 0, "no archives", pattern, err)
		for _, file := range found {
			name := filepath.Base(file)
			require.NoError(t, os.Rename(file, filepath.Join(module, name)))
			version = strings.TrimSuffix(strings.TrimPrefix(name, "transport-netty4-client-"), ".jar")
		}
	}
	write(t, filepath.Join(module, "plugin-descriptor.properties"), fmt.Sprintf(`
name=transport-netty4
description=the HTTP server and the transport
version=%s
opensearch.version=%s
java.version=11
classname=org.opensearch.transport.Netty4Plugin
`, version, version))
	write(t, filepath.Join(module, "plugin-security.policy"), `
grant {
  permission java.net.SocketPermission "*", "accept,connect";
  permission java.io.FilePermission "/proc/sys/net/core/somaxconn", "read";
  permission java.lang.RuntimePermission "*", "setContextClassLoader";
  permission java.lang.RuntimePermission "getClassLoader";
  permission java.util.PropertyPermission "sun.nio.ch.bugLevel", "write";
};
`)
	write(t, filepath.Join(home, "config", "log4j2.properties"), `
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1.} %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
`)
}

func write(t testing.TB, file, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
}

// give makes a temporary folder of the test nobody's.
func give(t testing.TB, folder string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, nobody, nobody))
	})
	require.NoError(t, errors.Join(err, os.Chmod(filepath.Dir(folder), 0o755)))
}

// try sends a request with a JSON body, if any. An answer other than 2xx is an error.
func (o *openSearch) try(method, path, body string) ([]byte, error) {
	r, err := http.NewRequest(method, o.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return nil, err
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %d %s", method, path, answer.StatusCode, text)
	}
	return text, err
}

// do sends a request with a JSON body, if any, and decodes the answer into reply unless it
// is nil.
func (o *openSearch) do(t testing.TB, method, path, body string, reply any) {
	t.Helper()
	text, err := o.try(method, path, body)
	if err == nil && reply != nil {
		err = json.Unmarshal(text, reply)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, o.output.end())
	}
}
