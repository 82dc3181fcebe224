package docs_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
	"github.com/twmb/franz-go/pkg/kfake"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/certificate"
	"ndrbridge/test/jira"
	"ndrbridge/test/loopback"
	"ndrbridge/test/natscluster"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// world is what a document takes for granted: servers in place of those that it names, and
// folders in place of those of the system. Their addresses and paths are substituted in what
// is typed, and those of the document in what is printed.
type world struct {
	t      *testing.T
	folder string // in place of the system's root
	home   string // where the reader begins
	names  []string
}

// absolute are the folders that documents may use.
var absolute = []string{"/run/secrets", "/var/lib/ndrbridge", "/var/backups", "/backups", "/backup", "/etc/ndrbridge"}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, folder: t.TempDir(), home: t.TempDir()}
	w.names = []string{"/home/you", w.home}
	for _, path := range absolute {
		w.must(os.MkdirAll(w.folder+path, 0o755))
		w.names = append(w.names, path, w.folder+path)
	}
	for name, secret := range map[string]string{
		"admin-token": "a-token", "hq": standin.DefaultAPIKey, "hec": "a-token", "jira-token": "a-token",
		"old": "whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0", "new": "whsec_bmV3ZXItc2VjcmV0LXNlY3JldC1zZWNyZXQ=",
	} {
		w.write(w.folder+"/run/secrets/"+name, secret+"\n")
	}
	pair := certificate.New(t, "127.0.0.1", time.Now().Add(time.Hour), nil)
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	w.must(err)
	w.write(w.folder+"/run/secrets/certificate", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}))+
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
	return w
}

// serve starts the servers whose names texts contain.
func (w *world) serve(texts ...string) {
	w.t.Helper()
	contains := func(name string) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, name) })
	}
	if contains("nats-1.example:4222") {
		w.serveNATS()
	}
	for _, s := range []struct {
		name  string
		start func(t *testing.T) (address string)
	}{
		{"127.0.0.1:9600", func(t *testing.T) string { return loopback.Free(t) }}, // of the bridge
		{"127.0.0.1:8080", func(t *testing.T) string { return loopback.Free(t) }}, // of ndrappliance
		{"127.0.0.1:4222", func(t *testing.T) string {
			return strings.TrimPrefix(loopback.NATS(t, func(*server.Options) {}).ClientURL(), "nats://")
		}},
		{"127.0.0.1:9092", func(t *testing.T) string {
			brokers, err := kfake.NewCluster(kfake.NumBrokers(1))
			w.must(err)
			t.Cleanup(brokers.Close)
			return brokers.ListenAddrs()[0]
		}},
		{"second.example:9600", func(t *testing.T) string { return loopback.Free(t) }}, // of a second member
		{"ndr.example:9600", func(t *testing.T) string { return loopback.Free(t) }},    // of a bridge with TLS
		{"https://sensor.example", serveAppliance},
		{"https://hooks.slack.com", func(t *testing.T) string { return serveHTTP(t, http.HandlerFunc(accept)) }},
		{"https://corp.atlassian.net", func(t *testing.T) string {
			return serveHTTP(t, jira.New(jira.Options{Email: "bridge@corp.example", Token: "a-token", Project: "SEC", Now: time.Now}))
		}},
		{"https://collector.example", func(t *testing.T) string { return serveHTTP(t, http.HandlerFunc(collect)) }},
		{"https://tickets.example", func(t *testing.T) string { return serveHTTP(t, http.HandlerFunc(accept)) }},
		{"https://es.example:9200", serveElasticsearch},
		{"https://os.example:9200", serveOpenSearch},
		{"collector.example:6514", func(t *testing.T) string { return loopback.Silent(t) }},
	} {
		if contains(s.name) {
			w.names = append(w.names, s.name, s.start(w.t))
		}
	}
}

// serveAppliance serves a stand-in appliance with things that happen.
func serveAppliance(t *testing.T) string {
	a := standin.New(standin.Options{Seed: 1})
	a.AddBacklog(40, 20*time.Hour)
	a.AddAudit(3)
	require.NoError(t, a.AddRecordBacklog(20, 20*time.Hour))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { a.Live(ctx, standin.Rates{Appear: 3, Update: 3, Records: 2}) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return serveHTTP(t, a)
}

func serveHTTP(t *testing.T, h http.Handler) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// collect accepts events, but not those of the audit log.
func collect(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender is gone
	}
	switch e, err := transform.Parse(body); {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case strings.HasSuffix(e.Type, ".audit.logged"):
		http.Error(w, "unknown event type", http.StatusUnprocessableEntity)
	}
}

// serveNATS runs the three NATS servers of a cluster.
func (w *world) serveNATS() {
	w.t.Helper()
	program, err := natscluster.Build(w.t.Context(), w.t.TempDir())
	w.must(err)
	servers, err := natscluster.New(program, w.t.TempDir(), 3, nil)
	w.must(err)
	w.must(servers.Start(w.t.Context()))
	w.t.Cleanup(func() {
		assert.NoError(w.t, servers.Stop())
	})
	for i, n := range servers.Nodes {
		w.names = append(w.names, fmt.Sprintf("nats-%d.example:4222", i+1), n.Address)
	}
	user, err := nkeys.CreateUser()
	w.must(err)
	seed, err := user.Seed()
	w.must(err)
	id, err := user.PublicKey()
	w.must(err)
	account, err := nkeys.CreateAccount()
	w.must(err)
	signed, err := jwt.NewUserClaims(id).Encode(account)
	w.must(err)
	credentials, err := jwt.FormatUserConfig(signed, seed)
	w.must(err)
	w.write(w.folder+"/run/secrets/nats.creds", string(credentials))
}

// accept accepts everything.
func accept(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
}

// place returns a text with the world's addresses and paths in place of a document's.
func (w *world) place(text string) string { return strings.NewReplacer(w.names...).Replace(text) }

// guard fails the test if a text of a document names other addresses and paths than the
// world's.
func (w *world) guard(position, placed string) {
	w.t.Helper()
	for _, found := range outside.FindAllStringSubmatch(placed, -1) {
		name := found[1]
		require.True(w.t, w.has(name), position, name, "is outside of what a test may use")
	}
}

// outside finds absolute paths and the addresses of servers.
var outside = regexp.MustCompile(`(?:^|[\s"'=(:,>])((?:/[A-Za-z]|127\.0\.0\.1:\d|[a-z]+://|[\w-]+(?:\.[\w-]+)*\.example:)[\w./:#-]*)`)

// has reports whether a path or an address belongs to the world.
func (w *world) has(name string) bool {
	own := []string{w.folder, w.home, "/api/", "/dev/null", "http://127.0.0.1:9600"}
	for i := 1; i < len(w.names); i += 2 {
		own = append(own, w.names[i], "http://"+w.names[i], "https://"+w.names[i], "nats://"+w.names[i])
	}
	return slices.ContainsFunc(own, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// shown returns an output with the names of the document.
func (w *world) shown(output string) string {
	names := slices.Clone(w.names)
	slices.Reverse(names)
	return strings.NewReplacer(names...).Replace(output)
}

// checkout puts a copy of the repository where the reader begins.
func (w *world) checkout() {
	w.t.Helper()
	w.must(filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		to := filepath.Join(w.home, name)
		switch {
		case e.IsDir() && slices.Contains([]string{".git", "bin", "node_modules", ".venv"}, e.Name()):
			return filepath.SkipDir
		case e.IsDir():
			return os.MkdirAll(to, 0o755)
		case !e.Type().IsRegular():
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, text, info.Mode().Perm())
	}))
}

// environment is that of the reader's shell, with the programs of a folder.
func (w *world) environment(programs string) []string {
	all := []string{
		"HOME=" + w.home, "TOKEN=a-token", "LANG=C.UTF-8", "TMPDIR=" + w.folder, "PATH=" + programs + ":" + os.Getenv("PATH"),
		"GOFLAGS=-trimpath -buildvcs=false", "GOPROXY=off", "GOTOOLCHAIN=local",
	}
	for _, name := range []string{"GOENV", "GOPATH", "GOCACHE", "GOMODCACHE"} { // otherwise found through HOME
		all = append(all, name+"="+goEnv(w.t, name))
	}
	return all
}

func (w *world) write(path, text string) {
	w.t.Helper()
	w.must(os.WriteFile(path, []byte(text), 0o600))
}

func (w *world) must(err error) {
	w.t.Helper()
	require.NoError(w.t, err)
}

// programs builds the programs of the repository without the race detector and returns
// their folder.
func programs(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	command := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", folder+"/", "./cmd/...")
	command.Dir = root
	output, err := command.CombinedOutput()
	require.NoError(t, err, "build the programs", string(output))
	return folder
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	value := require.Value(exec.CommandContext(t.Context(), "go", "env", name).Output())(t)
	return strings.TrimSpace(string(value))
}

// log returns what the bridge has logged.
func (w *world) log() string {
	text, _ := os.ReadFile(filepath.Join(w.home, "bridge.log"))
	return string(text)
}
