package bridge_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/admin"
	"ndrbridge/test/assert"
	"ndrbridge/test/certificate"
	"ndrbridge/test/require"
)

// writePair writes a certificate and its key and returns their paths.
func writePair(t *testing.T, folder string, pair tls.Certificate) (certFile, keyFile string) {
	t.Helper()
	text, key := certificate.PEM(t, pair)
	certFile, keyFile = filepath.Join(folder, "own.crt"), filepath.Join(folder, "own.key")
	for path, content := range map[string]string{certFile: text, keyFile: key} {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	return certFile, keyFile
}

// TestTheAdminInterfaceOfABridgeOverTLS runs a bridge with everything that its admin interface
// can require of callers.
func TestTheAdminInterfaceOfABridgeOverTLS(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	own := certificate.New(t, "ndr.example", time.Now().Add(time.Hour), nil)
	var files admin.TLS
	files.CertFile, files.KeyFile = writePair(t, folder, own)
	files.ClientCAFile = files.CertFile
	_, url := startAppliance(t, 1)
	soc := startInbox(t)
	r := run(t, fmt.Sprintf(`
state: %s
admin: {listen: "localhost:0", token: all, read_token: read, tls: {cert_file: %s, key_file: %s, client_ca_file: %s}}
appliances: [{name: hq, url: %q, api_key: %s, detections: {start: beginning, interval: 20ms}}]
sinks:
%s`, filepath.Join(folder, "state.db"), files.CertFile, files.KeyFile, files.ClientCAFile, url, "demo-key", webhookSink("soc", soc.URL)))

	client := func(token string, files admin.TLS) *admin.Client {
		t.Helper()
		c := require.Value(admin.NewOwnClient(r.AdminAddress(), token, files))(t)
		return c
	}
	for _, test := range []struct {
		name, token string
		files       admin.TLS
		want        string // in the error; empty: it pauses the sink
	}{
		{"with token and certificate", "all", files, ""},
		{"with the token for reading", "read", files, "can only read"},
		{"with a wrong token", "other", files, "admin.token"},
		{"without https", "all", admin.TLS{}, "requires TLS"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := admin.API.PauseSink.Do(t.Context(), client(test.token, test.files), admin.OfSink{Sink: "soc"})
			assert.True(t, (err == nil) == (test.want == "") && (err == nil || strings.Contains(err.Error(), test.want)), "the error", err, test.want)
		})
	}
	status, err := client("read", files).Status(t.Context())
	assert.True(t, err == nil && status.ReadOnly && status.Sinks[0].State == "paused", status, err)
	resp := require.Value(http.Get("http://" + r.AdminAddress() + "/healthz"))(t)
	defer resp.Body.Close()
	assert.Equal(t, resp.StatusCode, http.StatusBadRequest, "plain HTTP is answered with", resp.Status)
	assert.True(t, r.log.hasLine("running", "admin=https://localhost:"), "the start is not logged with the scheme and the host of admin.listen", r.log)
}
