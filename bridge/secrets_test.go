package bridge_test

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ndrbridge/appliance"
	"ndrbridge/bridge"
	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/sinks"
	"ndrbridge/sinks/sinktest"
	standin "ndrbridge/test/appliance"
	"ndrbridge/transform"
)

// targets are the addresses of what fails, as host:port, but for url, which has a
// scheme, too.
type targets struct{ url, proxy, nats, kafka string }

// tricky stands behind the marker of a secret, for characters that look different
// wherever something is encoded.
const tricky = `"<&%+/~`

// everySecret is a configuration that has a secret at every key that takes one.
func everySecret(t *testing.T, to targets) *configs.Config {
	t.Helper()
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	sign := func(fill string) string {
		return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(fill, 32)))
	}
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	jwt := base64.RawURLEncoding.EncodeToString([]byte(`{"typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"x"}`)) + ".zqNATSJWT0123456789"
	creds := file("creds", "-----BEGIN NATS USER JWT-----\n"+jwt+"\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n"+string(seed)+"\n------END USER NKEY SEED------\n")
	cert, _ := sinktest.Certificate(t)
	der, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	certFile := file("cert", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})))
	keyFile := file("key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	tls := fmt.Sprintf("tls: {cert_file: %q, key_file: %q}", certFile, keyFile)
	proxy := ""
	if to.proxy != "" {
		scheme, host, _ := strings.Cut(to.proxy, "://")
		proxy = fmt.Sprintf(", proxy: '%s://px:zqProxyPassword%%22%%3C%%26%%2B@%s'", scheme, host)
	}
	hook := func(name, path, keys string) string {
		return fmt.Sprintf("  - {name: %s, probe: 5ms, retry: {initial: 1ms, max: 5ms}, batch: {max_events: 1, linger: 0}, webhook: {url: '%s%s', timeout: 200ms, %s%s}}\n",
			name, to.url, path, keys, proxy)
	}
	scheme, host, _ := strings.Cut(to.url, "://")
	withUser := hook("in-url", "/hooks/zqPathSegment%22%3C/x?sig=zqQuerySignature%22%3C%26&b=zqQueryOther0", tls)
	withUser = strings.Replace(withUser, to.url, scheme+"://ur:zqUserPassword%22%3C%26%2B@"+host, 1)
	nats := func(name, login, keys string) string {
		return fmt.Sprintf("  - {name: %s, probe: 5ms, retry: {initial: 1ms, max: 5ms}, nats: {url: 'nats://%s%s'%s}}\n", name, login, to.nats, keys)
	}
	yaml := `
state: ` + filepath.Join(folder, "state.db") + `
log: {level: debug}
shutdown_timeout: 1s
admin: {listen: "127.0.0.1:0", token: 'zqAdminToken` + tricky + `'}
appliances:
  - name: keyed
    url: ` + to.url + `
    api_key: 'zqApplianceKey` + tricky + `'
    timeout: 200ms
    rate_limit: 100000
    retry: {initial: 1ms, max: 5ms}
    auth_retry: 5ms
    ` + tls + strings.Replace(proxy, ", ", "\n    ", 1) + `
  - name: cloud
    url: ` + to.url + `
    oauth: {token_url: '` + scheme + `://tk:zqTokenPassword%22%3C%26@` + host + `/oauth2/token?tenant=zqTokenQuery0%22%3C', client_id: id, client_secret: 'zqClientSecret` + tricky + `'}
    timeout: 200ms
    rate_limit: 100000
    retry: {initial: 1ms, max: 5ms}
    auth_retry: 5ms
sinks:
  - {name: kafka, probe: 5ms, retry: {initial: 1ms, max: 5ms}, kafka: {brokers: ['` + to.kafka + `'], sasl: {mechanism: plain, username: me, password: 'zqKafkaPassword` + tricky + `'}}}
  - {name: kafka-tls, probe: 5ms, retry: {initial: 1ms, max: 5ms}, kafka: {brokers: ['` + to.kafka + `'], ` + tls + `, sasl: {mechanism: scram-sha-256, username: me, password: 'zqKafkaScram0` + tricky + `'}}}
` + nats("nats-token", "", ", token: 'zqNatsToken0"+tricky+"', "+tls) +
		nats("nats-user", "", ", stream: NDR, username: me, password: 'zqNatsPassword"+tricky+"'") +
		nats("nats-url", "me:zqNatsUrlPassword%22%3C%26@", "") +
		nats("nats-url-token", "zqNatsUrlToken%22%3C%26@", "") +
		nats("nats-creds", "", fmt.Sprintf(", creds_file: %q", creds)) +
		nats("nats-nkey", "", fmt.Sprintf(", nkey_file: %q", file("nkey", string(seed)))) +
		withUser +
		hook("bearer", "/", "auth: {bearer: 'zqBearerToken"+tricky+"'}, handshake: {origin: bridge.example}") +
		hook("basic", "/", "auth: {username: me, password: 'zqBasicPassword"+tricky+"'}") +
		hook("headers", "/", "headers: {X-Api-Key: 'zqHeaderValue0"+tricky+"', Authorization: 'Token zqHeaderAuth0"+tricky+"'}") +
		hook("signed", "/", "sign: {secrets: ['"+sign("q")+"'], secret_files: ["+file("sign", sign("z"))+"]}, template: '{\"title\": {{json .event.id}}}'") +
		hook("slack", "/services/T0/B0/zqSlackPath01234", "preset: slack") +
		hook("slack-bot", "/api/chat.postMessage", "preset: slack, channel: C1, key: zqSlackBotToken") +
		hook("teams", "/workflows/x?sig=zqTeamsSignature", "preset: teams") +
		hook("discord", "/api/webhooks/1/zqDiscordToken01", "preset: discord") +
		hook("pagerduty", "/v2/enqueue", "preset: pagerduty, key: zqRoutingKey000") +
		hook("splunk", "", "preset: splunk_hec, key: 'zqSplunkToken0"+tricky+"'") +
		hook("elastic", "/ndr", "preset: elasticsearch, gzip: false, key: zqElasticKey000") +
		hook("datadog", "/api/v2/logs", "preset: datadog, gzip: false, key: zqDatadogKey000") +
		"  - {name: log, file: {path: \"-\"}}\n"
	config, err := configs.Parse("ndrbridge.yaml", []byte(yaml), nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, yaml)
	}
	return config
}

// secretsOf finds the secrets of a configuration, each by its key.
func secretsOf(t *testing.T, config *configs.Config) secrets {
	keys := make(map[string]bool)
	secretKeys(reflect.TypeFor[configs.Config](), "", keys)
	all := make(secrets)
	all.collect(t, reflect.ValueOf(config).Elem(), "", keys)
	return all
}

func TestEveryKeyThatTakesASecretIsTriedInTheTestsBelow(t *testing.T) {
	config := everySecret(t, targets{"http://127.0.0.1:1", "http://127.0.0.1:1", "127.0.0.1:1", "127.0.0.1:1"})
	tried := secretsOf(t, config)
	keys := make(map[string]bool)
	secretKeys(reflect.TypeFor[configs.Config](), "", keys)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if len(tried[key]) == 0 {
			t.Errorf("%s can hold a secret, and has none here", key)
		}
	}
	var searched []string
	for _, values := range tried {
		searched = append(searched, values...)
	}
	if len(searched) < 40 {
		t.Errorf("%d secrets are searched for", len(searched))
	}
	t.Run("a leak is found in every form", func(t *testing.T) {
		l := newLeaks(secrets{"key": {"zqSomething0" + tricky}})
		for before := range 4 {
			plain := strings.Repeat(".", before) + "zqSomething0" + tricky
			for _, text := range []string{plain, base64.URLEncoding.EncodeToString([]byte(plain)), base64.StdEncoding.EncodeToString([]byte(plain))} {
				if !slices.ContainsFunc(slices.Collect(maps.Keys(l.forms)), func(form string) bool { return strings.Contains(text, form) }) {
					t.Errorf("not in %s", text)
				}
			}
		}
	})
}

// failures are the ways in which a target is not reached, and those in which it
// repeats what it is sent.
func failures(t *testing.T) map[string]targets {
	t.Helper()
	closed := closedPort(t)
	plain, secure := startEcho(t)
	bytes, nats := echoBytes(t), echoNATS(t)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser("PLAIN", "me", "another"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	const saslAuthenticate, authenticationFailed = 36, 58
	cluster.ControlKey(saslAuthenticate, func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		answer := request.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		said := strings.ReplaceAll(string(request.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes), "\x00", " ")
		answer.ErrorCode, answer.ErrorMessage = authenticationFailed, &said
		return answer, nil, true
	})
	broker := cluster.ListenAddrs()[0]
	return map[string]targets{
		"nobody listens":                                {"http://" + closed, "", closed, closed},
		"the name does not resolve":                     {"http://nowhere..invalid", "", "nowhere..invalid:4222", "nowhere..invalid:9092"},
		"the server repeats what it is sent":            {"http://" + plain, "", nats, broker},
		"the server sends back every byte":              {"http://" + bytes, "", bytes, bytes},
		"the server speaks no TLS":                      {"https://" + plain, "", plain, plain},
		"nobody vouches for the server":                 {"https://" + secure, "", secure, secure},
		"the server speaks TLS alone":                   {"http://" + secure, "", secure, secure},
		"nobody listens at the proxy":                   {"https://127.0.0.1:1", "http://" + closed, closed, closed},
		"the proxy repeats what it is sent":             {"https://127.0.0.1:1", "http://" + plain, nats, broker},
		"the proxy repeats what is not encrypted":       {"http://127.0.0.1:1", "http://" + plain, nats, broker},
		"nobody vouches for the proxy":                  {"https://127.0.0.1:1", "https://" + secure, nats, broker},
		"the proxy's name does not resolve":             {"http://127.0.0.1:1", "http://nowhere..invalid", nats, broker},
		"the socks proxy sends back every byte":         {"http://127.0.0.1:1", "socks5://" + bytes, bytes, bytes},
		"the socks proxy is an HTTP server that echoes": {"http://127.0.0.1:1", "socks5://" + plain, bytes, bytes},
	}
}

func TestNoErrorOfASinkOrAnApplianceShowsASecret(t *testing.T) {
	for name, to := range failures(t) {
		t.Run("when "+name, func(t *testing.T) {
			t.Parallel()
			config := everySecret(t, to)
			leaks := newLeaks(secretsOf(t, config))
			attempts := 2
			if strings.Contains(name, "repeats") {
				attempts = 50
			}
			var trying sync.WaitGroup // since most of their time they wait
			defer trying.Wait()
			for _, s := range config.Sinks {
				attempts := attempts
				if s.Webhook == nil {
					attempts = min(attempts, 8) // a connection each
				}
				trying.Go(func() { tellsNothing(t, leaks, s, attempts) })
			}
			for _, a := range config.Appliances {
				trying.Go(func() { asksInSecret(t, leaks, a, attempts) })
			}
		})
	}
}

// tellsNothing has a sink fail, and looks for secrets in its errors.
func tellsNothing(t *testing.T, l leaks, s configs.Sink, attempts int) {
	events := []transform.Event{detectionEvent(t, 1, 50)}
	state, err := checkpoint.Open(filepath.Join(t.TempDir(), "state.db"), checkpoint.Options{})
	if err != nil {
		t.Error(err)
		return
	}
	defer state.Close()
	if err := state.Configure(t.Context(), map[string]checkpoint.Start{s.Name: {}}); err != nil {
		t.Error(err)
		return
	}
	failed := 0
	for range attempts {
		// A new one each time, since some send little in a second.
		sink, err := bridge.OpenSink(s, state, "test", io.Discard)
		if err != nil {
			t.Error(err)
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if err := sink.Send(ctx, events); err != nil {
			failed++
			tellAll(t, l, "an error of sink "+s.Name, err)
		}
		cancel()
		if err := sink.Close(); err != nil {
			tellAll(t, l, "closing sink "+s.Name, err)
		}
	}
	if failed == 0 && s.File == nil {
		t.Errorf("sink %s never failed", s.Name)
	}
}

// asksInSecret has the requests to an appliance fail, and looks for secrets in their
// errors.
func asksInSecret(t *testing.T, l leaks, a configs.Appliance, attempts int) {
	client, err := bridge.NewClient(a, "test", func(string) {})
	if err != nil {
		t.Error(err)
		return
	}
	defer client.Close()
	for range attempts {
		var page appliance.Page
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err := client.AuditLog(ctx, 10, 0, &page)
		cancel()
		if err == nil {
			t.Errorf("appliance %s never failed", a.Name)
			return
		}
		tellAll(t, l, "an error of appliance "+a.Name, err)
	}
}

// tellAll looks for secrets in an error, and in those that it is about.
func tellAll(t *testing.T, l leaks, where string, err error) {
	t.Helper()
	l.in(t, where, fmt.Sprintf("%v %+v", err, err))
	if each, ok := errors.AsType[sinks.EventErrors](err); ok {
		for _, err := range each {
			l.in(t, where, fmt.Sprint(err))
		}
	}
}

func TestNothingThatABridgeTellsShowsASecret(t *testing.T) {
	plain, _ := startEcho(t)
	config := everySecret(t, targets{"http://" + plain, "", echoNATS(t), echoBytes(t)})
	leaks := newLeaks(secretsOf(t, config))
	real := standin.New(standin.Options{Seed: 1})
	real.AddBacklog(200, time.Hour)
	good := httptest.NewServer(real)
	t.Cleanup(good.Close)
	source := config.Appliances[0]
	source.Name, source.URL, source.APIKey = "good", good.URL, configs.NewSecret(standin.DefaultAPIKey)
	source.Detections.Start = configs.Start{}
	if err := source.Detections.Start.UnmarshalText([]byte("beginning")); err != nil {
		t.Fatal(err)
	}
	config.Appliances = append(config.Appliances, source)
	for i := range config.Sinks {
		config.Sinks[i].Lag = configs.Lag{Policy: configs.LagBlock}
	}

	told := new(lines)
	b, err := bridge.New(t.Context(), config, bridge.Options{Version: "test", Log: bridge.NewLog(told, config.Log), Stdout: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()

	token, err := config.Admin.Token.Read()
	if err != nil {
		t.Fatal(err)
	}
	page := func(path string) string {
		r, err := http.NewRequest(http.MethodGet, "http://"+b.AdminAddress()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	look := func() {
		for _, path := range []string{"/", "/healthz", "/readyz", "/metrics", "/api/v1/status", "/api/v1/nothing"} {
			leaks.in(t, path, page(path))
		}
		for _, s := range config.Sinks {
			path := "/api/v1/sinks/" + s.Name + "/dead"
			leaks.in(t, path, page(path))
		}
	}
	await(t, "every sink to fail, and some to have dead letters", func() bool {
		look()
		status := page("/api/v1/status")
		metrics := page("/metrics")
		for _, s := range config.Sinks {
			failed := strings.Contains(metrics, fmt.Sprintf(`ndrbridge_sink_retries_total{class="transient",sink=%q}`, s.Name))
			if !failed && s.File == nil && !strings.Contains(told.String(), "sink="+s.Name) {
				return false
			}
		}
		return strings.Contains(status, `"dead_letters":1`) || strings.Contains(page("/api/v1/sinks/in-url/dead"), "reason")
	})
	look()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	leaks.in(t, "the log", told.String())
	if !strings.Contains(told.String(), "level=WARN") {
		t.Errorf("the log tells no failure: %s", told)
	}
}
