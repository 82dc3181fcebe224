package bridge_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"ndrbridge/test/require"
)

// guarded is a webhook that accepts only bodies signed with the right secret.
type guarded struct {
	url string

	mu     sync.Mutex
	check  *standardwebhooks.Webhook // nil: no signature is needed
	bodies []string
	wrong  int // requests that were refused
}

func startGuarded(t *testing.T) *guarded {
	t.Helper()
	g := new(guarded)
	s := httptest.NewServer(g)
	t.Cleanup(s.Close)
	g.url = s.URL
	return g
}

func (g *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.check != nil && g.check.Verify(body, r.Header) != nil:
		g.wrong++
		w.WriteHeader(http.StatusUnauthorized)
	default:
		g.bodies = append(g.bodies, string(body))
	}
}

func (g *guarded) counts() (taken, refused int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.bodies), g.wrong
}

func (g *guarded) took(n int) func() bool {
	return func() bool {
		taken, _ := g.counts()
		return taken == n
	}
}

func TestASigningSecretIsChangedWhileTheBridgeRuns(t *testing.T) {
	const old, current = "whsec_b2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xk", "whsec_bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3"
	_, url := startAppliance(t, 10)
	soc := startGuarded(t)
	check, err := standardwebhooks.NewWebhook(current)
	require.NoError(t, err)
	soc.check = check
	secret := filepath.Join(t.TempDir(), "secret")
	write := func(text string) {
		require.NoError(t, os.WriteFile(secret, []byte(text+"\n"), 0o600))
	}
	write(old)
	r := run(t, configuration(t, url, `  - {name: soc, probe: 20ms, webhook: {url: "`+soc.url+`", sign: {secret_files: ["`+secret+`"]}}}`))
	await(t, "the old secret's signature to be refused", func() bool { _, refused := soc.counts(); return refused > 0 })
	write(current)
	await(t, "everything, signed by the new one", soc.took(10))
	r.stop()
	if strings.Contains(r.log.String(), "whsec_") {
		t.Error("the log shows a secret")
	}
}

func TestAReloadReadsATemplateFileAgain(t *testing.T) {
	a, url := startAppliance(t, 0)
	soc := startGuarded(t)
	file := filepath.Join(t.TempDir(), "hook.tmpl")
	write := func(text string) {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write(`{"first": {{json .event.subject}}}`)
	yaml := configuration(t, url, `  - {name: soc, webhook: {url: "`+soc.url+`", template_file: "`+file+`"}}`)
	r := run(t, yaml)
	a.AddMany(3)
	await(t, "bodies by the template", soc.took(3))
	write(`{"second": {{json .event.subject}}}`)
	if changed := r.reload(t, yaml); len(changed) != 1 || changed[0] != "sink soc: changed" {
		t.Errorf("changed %q", changed)
	}
	a.AddMany(3)
	await(t, "bodies by the new one", soc.took(6))
	r.stop()
	for i, body := range soc.bodies {
		if want := [...]string{`{"first": "`, `{"second": "`}[i/3]; !strings.HasPrefix(body, want) {
			t.Errorf("body %d is %s", i, body)
		}
	}
}
