//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"ndrbridge/internal/admin"
	"ndrbridge/test/require"
)

// TestAdminInterfaceIsAsDescribed checks the description of the admin interface with
// openapi-spec-validator, and a running bridge with Schemathesis, which makes requests from the
// description in all its phases. It fails for an answer that the description does not have or
// whose status is 5xx, and for a request that is accepted although it does not fit.
func TestAdminInterfaceIsAsDescribed(t *testing.T) {
	t.Parallel()
	programs := installPython(t, "interface.txt")
	b := startOperatedBridge(t)
	folder := t.TempDir()
	described := filepath.Join(folder, "openapi.json")
	require.NoError(t, os.WriteFile(described, b.describe(), 0o600))
	start(t, exec.Command(filepath.Join(programs, "python"), "-m", "openapi_spec_validator", described)).succeed(t, time.Minute)
	run := exec.Command(filepath.Join(programs, "schemathesis"), "--no-color", "run", described, "--url", b.admin,
		"--header", "Authorization: Bearer "+operatorToken,
		// A request may fit the description, and still not the state of the bridge.
		// Below the path of a ticket command, POST is a ticket system's webhook.
		"--exclude-checks", "positive_data_acceptance,ensure_resource_availability",
		// Its answer does not end. The tests of the package admin compare it.
		"--exclude-path", "/api/v1/events",
		"--seed", "1", "--max-examples", "5", "--generation-database", "none", "--continue-on-failure", "--request-timeout", "20",
		"--warnings", "off")
	run.Dir = folder // where it keeps what it learned
	tested := start(t, run)
	tested.succeed(t, 3*time.Minute)
	t.Log(tested.output.end())
	if _, err := b.client.Status(t.Context()); err != nil {
		t.Errorf("the bridge does not answer any more: %v\n%s", err, b.output.end())
	}
}

const operatorToken = "0perat0r"

// operatedBridge is a running bridge with something to operate on: events, dead letters of the
// sink soc, and ticket commands.
type operatedBridge struct {
	*bridge
	t       *testing.T
	client  *admin.Client
	example map[string]string // values of parameters in paths
}

func startOperatedBridge(t *testing.T) *operatedBridge {
	t.Helper()
	a, url := startAppliance(t)
	a.AddBacklog(30, time.Hour)
	var received atomic.Int64
	soc := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil || received.Add(1)%3 == 0 {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
	}))
	t.Cleanup(soc.Close)
	folder := t.TempDir()
	config := writeConfig(t, url, 50*time.Millisecond, fmt.Sprintf(`
sinks:
  - {name: soc, start: beginning, webhook: {url: %q}}
  - {name: archive, start: beginning, file: {path: %q}}
tickets: {enabled: true, webhooks: {generic: [{name: tracker}]}}
`, soc.URL, filepath.Join(folder, "events.jsonl")))
	text, err := os.ReadFile(config)
	require.NoError(t, err)
	text = bytes.Replace(text, []byte(`"127.0.0.1:0"`), []byte(`"127.0.0.1:0", token: `+operatorToken), 1)
	require.NoError(t, os.WriteFile(config, text, 0o600))
	b := &operatedBridge{t: t, bridge: runBridge(t, buildBridge(t), config)}
	b.client, err = admin.NewClient(b.admin, operatorToken)
	require.NoError(t, err)
	eventually(t, time.Minute, func() error {
		status, err := b.client.Status(t.Context())
		if err == nil && (status.Sinks[0].DeadLetters < 5 || status.Sinks[1].LagEvents > 0) {
			err = fmt.Errorf("%d dead letters, a lag of %d events", status.Sinks[0].DeadLetters, status.Sinks[1].LagEvents)
		}
		return err
	})
	for n := range 3 {
		b.send(http.MethodPost, "/api/v1/tickets", fmt.Sprintf(`{"ticket_id": "SEC-%d", "appliance": "hq", "status": "closed"}`, n))
	}
	var page struct {
		DeadLetters []struct{ Key string } `json:"dead_letters"`
	}
	err = json.Unmarshal(b.send(http.MethodGet, "/api/v1/sinks/soc/dead", ""), &page)
	require.True(t, err == nil && len(page.DeadLetters) != 0, "no dead letters", err)
	b.example = map[string]string{"sink": "soc", "appliance": "hq", "stream": "detections", "key": page.DeadLetters[0].Key}
	return b
}

// send sends a request and returns the body of its answer, which must be a success.
func (b *operatedBridge) send(method, path, body string) []byte {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.admin+path, bytes.NewBufferString(body))
	require.NoError(b.t, err)
	r.Header.Set("Authorization", "Bearer "+operatorToken)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	require.NoError(b.t, err)
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	require.True(b.t, err == nil && answer.StatusCode < http.StatusBadRequest, method, path, answer.Status, string(content), err)
	return content
}

// describe returns the description with examples of parameters that exist.
func (b *operatedBridge) describe() []byte {
	b.t.Helper()
	var document map[string]any
	require.NoError(b.t, json.Unmarshal(b.send(http.MethodGet, "/api/v1/openapi.json", ""), &document))
	for _, item := range document["paths"].(map[string]any) {
		for _, operation := range item.(map[string]any) {
			parameters, _ := operation.(map[string]any)["parameters"].([]any)
			for _, p := range parameters {
				parameter := p.(map[string]any)
				if example, ok := b.example[parameter["name"].(string)]; ok && parameter["required"] == true {
					parameter["example"] = example
				}
			}
		}
	}
	text, err := json.Marshal(document)
	require.NoError(b.t, err)
	return text
}
