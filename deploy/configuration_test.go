// Package deploy_test checks the files of this folder against the bridge that they run
// and against each other. The script check checks them with the tools that read them.
package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"ndrbridge/configs"
	"ndrbridge/test/assert"
	"ndrbridge/test/certificate"
	"ndrbridge/test/require"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text := require.Value(os.ReadFile(path))(t)
	return string(text)
}

var secretFile = regexp.MustCompile(`\w+_file: (?:/run/[\w./-]+|"\$\{NDR_SECRETS:-\./secrets/\}[\w-]+")`)

// load loads a configuration with the test's own secret files in place of those that it
// names, and returns the paths that it names.
func load(t *testing.T, name, text string) (*configs.Config, []string) {
	t.Helper()
	folder := t.TempDir()
	var secrets []string
	cert, private := certificate.PEM(t, certificate.New(t, "ndr.example", time.Now().Add(time.Hour), nil))
	text = secretFile.ReplaceAllStringFunc(text, func(match string) string {
		key, path, _ := strings.Cut(strings.ReplaceAll(match, `"`, ""), " ")
		secrets = append(secrets, path)
		own := filepath.Join(folder, strings.TrimPrefix(filepath.Base(path), "}"))
		content := filepath.Base(path) + "\n"
		switch {
		case strings.HasSuffix(key, "cert_file:"), strings.HasSuffix(key, "ca_file:"):
			content = cert
		case strings.HasSuffix(path, "admin-key"), strings.HasSuffix(path, "/tls.key"):
			content = private
		}
		require.NoError(t, os.WriteFile(own, []byte(content), 0o600))
		return key + " " + own
	})
	config := require.Value(configs.Parse(name, []byte(text), []string{"SLACK_URL=https://chat.example"}))(t)
	return config, secrets
}

func TestConfigurationsLoad(t *testing.T) {
	for _, at := range []struct{ path, secrets string }{
		{"compose/ndrbridge.yaml", "/run/secrets/"},
		{"compose/cluster/ndrbridge.yaml", "/run/secrets/"},
		{"systemd/ndrbridge.yaml", "${NDR_SECRETS:-./secrets/}"},
		{"kubernetes/base/ndrbridge.yaml", "/run/secrets/ndrbridge/"},
		{"kubernetes/example/ndrbridge.yaml", "/run/secrets/ndrbridge/"},
		{"kubernetes/cluster/ndrbridge.yaml", "/run/secrets/ndrbridge/"},
	} {
		t.Run(at.path, func(t *testing.T) {
			_, secrets := load(t, at.path, read(t, at.path))
			assert.True(t, len(secrets) != 0, "it names no secret")
			for _, path := range secrets {
				assert.True(t, strings.HasPrefix(path, at.secrets), "the secret", path, "is not under", at.secrets)
			}
		})
	}
}

// TestServersOfAClusterSyncEachMessage checks what the bridges of a cluster cannot see.
func TestServersOfAClusterSyncEachMessage(t *testing.T) {
	t.Setenv("NATS_NAME", "nats-1")
	o := require.Value(server.ProcessConfigFile("compose/cluster/nats.conf"))(t)
	config, _ := load(t, "compose/cluster/ndrbridge.yaml", read(t, "compose/cluster/ndrbridge.yaml"))
	assert.True(t, o.JetStream && o.SyncAlways && len(o.Routes) >= config.Cluster.Replicas, "JetStream", o.JetStream, "sync_interval: always", o.SyncAlways, len(o.Routes), "routes")
}
