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
)

// guarded is a webhook that accepts bodies only after a handshake, or signed with the
// right secret.
type guarded struct {
	url string

	mu     sync.Mutex
	asked  int
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
	case r.Method == http.MethodOptions:
		g.asked++
		w.Header().Set("WebHook-Allowed-Origin", r.Header.Get("WebHook-Request-Origin"))
		w.Header().Set("WebHook-Allowed-Rate", "*")
	case g.check != nil && g.check.Verify(body, r.Header) != nil:
		g.wrong++
		w.WriteHeader(http.StatusUnauthorized)
	default:
		g.bodies = append(g.bodies, string(body))
	}
}

func (g *guarded) counts() (asked, taken, refused int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked, len(g.bodies), g.wrong
}

func (g *guarded) took(n int) func() bool {
	return func() bool {
		_, taken, _ := g.counts()
		return taken == n
	}
}

func TestTheHandshakeIsRepeatedAtEveryStartAndWhenTheSinkChanges(t *testing.T) {
	a, url := startAppliance(t, 10)
	soc := startGuarded(t)
	yaml := configuration(t, url, strings.Replace(webhookSink("soc", soc.url), "webhook: {", "webhook: {handshake: {origin: ndrbridge.example}, ", 1))
	r := run(t, yaml)
	n := 0
	expect := func(what string, more, asked int) {
		t.Helper()
		n += more
		await(t, "the new events after "+what, soc.took(n))
		if got, _, _ := soc.counts(); got != asked {
			t.Errorf("%s: it was asked %d times, want %d", what, got, asked)
		}
	}
	expect("a start", 10, 1)
	r.reload(t, "events: {heartbeat: 1h}\n"+yaml)
	a.AddMany(5)
	expect("a reload that leaves the sink as it is", 5, 1)
	yaml = strings.Replace(yaml, "max_events: 50", "max_events: 7", 1)
	r.reload(t, yaml)
	a.AddMany(5)
	expect("a reload that changes it", 5, 2)
	r.stop()
	a.AddMany(5)
	run(t, yaml)
	expect("a restart", 5, 3)
}

func TestASigningSecretIsChangedWhileTheBridgeRuns(t *testing.T) {
	const old, current = "whsec_b2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xk", "whsec_bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3"
	_, url := startAppliance(t, 10)
	soc := startGuarded(t)
	check, err := standardwebhooks.NewWebhook(current)
	if err != nil {
		t.Fatal(err)
	}
	soc.check = check
	secret := filepath.Join(t.TempDir(), "secret")
	write := func(text string) {
		if err := os.WriteFile(secret, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(old)
	r := run(t, configuration(t, url, `  - {name: soc, probe: 20ms, webhook: {url: "`+soc.url+`", sign: {secret_files: ["`+secret+`"]}}}`))
	await(t, "the old secret's signature to be refused", func() bool { _, _, refused := soc.counts(); return refused > 0 })
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
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
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
