package bridge_test

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ndrbridge/admin"
	"ndrbridge/test/certificate"
)

// TestTheAdminInterfaceOfABridgeOverTLS runs a bridge with everything that its admin interface
// can require of callers.
func TestTheAdminInterfaceOfABridgeOverTLS(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	own := certificate.New(t, "ndr.example", time.Now().Add(time.Hour), nil)
	key, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	files := admin.TLS{CertFile: filepath.Join(folder, "own.crt"), KeyFile: filepath.Join(folder, "own.key")}
	files.ClientCAFile = files.CertFile
	for path, block := range map[string]*pem.Block{
		files.CertFile: {Type: "CERTIFICATE", Bytes: own.Certificate[0]}, files.KeyFile: {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
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
		c, err := admin.NewOwnClient(r.AdminAddress(), token, files)
		if err != nil {
			t.Fatal(err)
		}
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
			err := client(test.token, test.files).Pause(t.Context(), "soc")
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
		})
	}
	if status, err := client("read", files).Status(t.Context()); err != nil || !status.ReadOnly || status.Sinks[0].State != "paused" {
		t.Errorf("%+v (%v)", status, err)
	}
	resp, err := http.Get("http://" + r.AdminAddress() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("plain HTTP is answered with %s", resp.Status)
	}
	if !r.log.hasLine("running", "admin=https://localhost:") {
		t.Errorf("the start is not logged with the scheme and the host of admin.listen: %s", r.log)
	}
}
