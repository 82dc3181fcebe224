package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/configs"
	"ndrbridge/sinks/webhook/presets"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/certificate"
	"ndrbridge/test/locked"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/test/slowtest"
)

// confidential is a configuration that holds a secret wherever one may be.
type confidential struct {
	file, text string
	secrets    secretive
	needles    []string
	names      []string // of those appliances and sinks that speak HTTP
	sinks      []string
	limited    []string // of those sinks whose rate is limited
	tokens     []string // of those sinks that fetch a token first; its endpoint has the suffix -token
}

// addresses say where appliances and sinks are. A name is that of an appliance or a
// sink, or proxy or token.
type addresses struct {
	scheme      string
	http        func(name string) string
	kafka, nats string
	proxy       string // the scheme; empty: http
	login       int    // the form of authentication of the ticket intake and the cluster, below natsLogins
	cluster     bool   // whether there is a cluster
	embedded    bool   // whether its members run the NATS servers
	adminTLS    bool   // whether the admin interface has TLS
}

// natsLogins is how many forms of authentication there are: a connection has one.
const natsLogins = 5

// confide writes the configuration. Beside what is hostile it has an appliance good,
// whose events the sinks are to deliver.
func confide(t *testing.T, good string, at addresses) confidential {
	t.Helper()
	folder := t.TempDir()
	n := 0
	// secret is another one at each call. Half of it can still be known again.
	secret := func() string {
		n++
		return fmt.Sprintf(`sesame%03d/+&"<%%>sesame%03d`, n, n)
	}
	quoted := func() string { return "'" + secret() + "'" }
	inURL := func() string {
		return strings.NewReplacer("/", "%2F", "+", "%2B", "&", "%26", `"`, "%22", "<", "%3C", "%", "%25", ">", "%3E").Replace(secret())
	}
	sign := func() string { n++; return fmt.Sprintf("whsec_sesame%03dsesame%03dxxxxxxxxxxxxxx", n, n) }
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	pair, _ := sinktest.Certificate(t)
	certFile, keyFile := certificate.Files(t, folder, "client", pair)
	files := fmt.Sprintf("{cert_file: %s, key_file: %s}", certFile, keyFile)
	seed := func() string {
		user, err := nkeys.CreateUser()
		require.NoError(t, err)
		seed := require.Value(user.Seed())(t)
		return string(seed)
	}
	n++
	creds := fmt.Sprintf("-----BEGIN NATS USER JWT-----\neyJh.sesame%03dsesame%03d.c2ln\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n%s\n------END USER NKEY SEED------\n", n, n, seed())

	all := confidential{file: filepath.Join(folder, "ndrbridge.yaml")}
	var text strings.Builder
	adminTLS := ""
	if at.adminTLS {
		adminTLS = fmt.Sprintf(", tls: {cert_file: %[1]s, key_file: %[2]s, client_ca_file: %[1]s}", certFile, keyFile)
	}
	fmt.Fprintf(&text, "state: %s\nlog: {level: debug}\nadmin: {listen: \"127.0.0.1:0\", token: %s, read_token: %s%s}\nappliances:\n", filepath.Join(folder, "state.db"), quoted(), quoted(), adminTLS)
	fmt.Fprintf(&text, "  - {name: good, url: %q, api_key: %s, detections: {start: beginning, interval: 20ms}, rate_limit: 1000}\n", good, standin.DefaultAPIKey)
	proxy := func() string {
		scheme := at.proxy
		if scheme == "" {
			scheme = "http"
		}
		return `"` + scheme + "://ana:" + inURL() + "@" + at.http("proxy") + `"`
	}
	appliance := func(name, keys string) {
		all.names = append(all.names, name)
		fmt.Fprintf(&text, "  - {name: %s, url: %q, rate_limit: 1000, timeout: 300ms, retry: {initial: 10ms, max: 30ms}, auth_retry: 20ms, detections: {interval: 20ms}, audit: {enabled: false}, %s}\n",
			name, at.scheme+at.http(name), keys)
	}
	appliance("key", "api_key: "+quoted()+", tls: "+files)
	appliance("behind", "api_key: "+quoted()+", proxy: "+proxy())
	appliance("cloud", fmt.Sprintf("oauth: {token_url: %q, client_id: bridge, client_secret: %s}", at.scheme+"ana:"+inURL()+"@"+at.http("token")+"/token?k="+inURL(), quoted()))
	text.WriteString("sinks:\n")
	sink := func(name, keys string) {
		all.sinks = append(all.sinks, name)
		fmt.Fprintf(&text, "  - {name: %s, start: beginning, probe: 20ms, retry: {initial: 10ms, max: 30ms}, batch: {max_events: 3, linger: 0}, %s}\n", name, keys)
	}
	sink("out", `file: {path: "-"}`)
	sink("lake", fmt.Sprintf("kafka: {brokers: [%q], sasl: {mechanism: plain, username: producer, password: %s}}", at.kafka, quoted()))
	sink("scram", fmt.Sprintf("kafka: {brokers: [%q], tls: %s, sasl: {mechanism: scram-sha-256, username: ana, password: %s}}", at.kafka, files, quoted()))
	sink("lake-new", fmt.Sprintf("kafka: {brokers: [%q], topic: new, create_topic: {partitions: 1}, sasl: {mechanism: plain, username: creator, password: %s}}", at.kafka, quoted()))
	token := func(name string) string {
		return fmt.Sprintf("sasl: {mechanism: oauthbearer, oauth: {token_url: %q, client_id: bridge, client_secret: %s}}", at.scheme+"ana:"+inURL()+"@"+at.http(name)+"/token?k="+inURL(), quoted())
	}
	sink("lake-oauth", fmt.Sprintf("kafka: {brokers: [%q], %s}", at.kafka, token("lake-token")))
	sink("bus", fmt.Sprintf("nats: {url: %q, token: %s, stream: NDR}", "nats://"+at.nats, quoted()))
	sink("nats-token", fmt.Sprintf("nats: {url: %q, token: %s}", "nats://"+at.nats, quoted()))
	sink("nats-user", fmt.Sprintf("nats: {url: %q, username: ana, password: %s}", "nats://"+at.nats, quoted()))
	sink("nats-url", fmt.Sprintf("nats: {url: %q, tls: %s}", "nats://ana:"+inURL()+"@"+at.nats+"/?k="+inURL(), files))
	sink("nats-creds", fmt.Sprintf("nats: {url: %q, creds_file: %s}", "nats://"+at.nats, file("creds", creds)))
	sink("nats-nkey", fmt.Sprintf("nats: {url: %q, nkey_file: %s}", "nats://"+at.nats, file("nkey", seed()+"\n")))
	// At a server that speaks first, the TLS handshake fails at once instead of waiting.
	sink("siem", fmt.Sprintf("syslog: {address: %q, tls: %s}", at.nats, files))
	hook := func(name, path, keys string) {
		all.names = append(all.names, name)
		server := at.scheme + at.http(name)
		keys = strings.ReplaceAll(keys, "SERVER", server) // a lookup asks where tickets are opened
		sink(name, fmt.Sprintf("webhook: {url: %q, timeout: 300ms, %s}", server+path+"?k="+inURL(), keys))
	}
	all.names = append(all.names, "url-file")
	sink("url-file", fmt.Sprintf("webhook: {url_file: %s, timeout: 300ms}", file("url", at.scheme+at.http("url-file")+"/?k="+inURL()+"\n")))
	hook("bearer", "/", "auth: {bearer: "+quoted()+"}, tls: "+files)
	// Their token endpoints are as hostile as their servers, so they never reach those.
	all.tokens = append(all.tokens, "oauth", "oauth-params")
	hook("oauth", "/", fmt.Sprintf("auth: {oauth: {token_url: %q, client_id: bridge, client_secret: %s}}", at.scheme+"ana:"+inURL()+"@"+at.http("oauth-token")+"/token?k="+inURL(), quoted()))
	hook("oauth-params", "/", fmt.Sprintf("auth: {oauth: {token_url: %q, client_id: bridge, client_secret: %s, style: params}}", at.scheme+at.http("oauth-params-token")+"/token", quoted()))
	hook("basic", "/", "auth: {username: ana, password: "+quoted()+"}, gzip: true, concurrency: 3")
	hook("headers", "/services/sesame900-sesame900-x", "headers: {X-Api-Key: "+quoted()+", Cookie: "+quoted()+"}, method: PUT")
	hook("odd", "/x/ses9", "headers: {X-Org: "+quoted()+"}")
	hook("tracker", "/", `template: '{"a": {{json .event.id}}}', ticket: {system: generic, id: id, search_delay: 0s, lookup: {id: id, url: "SERVER/?k=`+inURL()+`&id={{.event.subject}}"}}`)
	hook("behind-proxy", "/", "proxy: "+proxy())
	hook("signed", "/", "sign: {secrets: ["+sign()+", "+sign()+"], secret_files: ["+file("sign", sign()+"\n")+"]}")
	hook("template", "/", "auth: {bearer: "+quoted()+"}, template: '{\"text\": {{json .event.id}}}'")
	hook("bot", "/api/chat.postMessage", "preset: slack, channel: C1, key: "+quoted())
	all.limited = append(all.limited, "bot")
	for _, preset := range presets.All() {
		name := strings.ReplaceAll(preset.Name, "_", "-")
		sample, err := url.Parse(preset.Sample.URL)
		require.NoError(t, err)
		path, keys := sample.Path, "preset: "+preset.Name
		if !preset.PublicPath {
			n++
			path += fmt.Sprintf("/sesame%03d-sesame%03d-x", n, n)
		}
		if preset.PublicPath && preset.Key != "" {
			keys += ", key: " + quoted()
		}
		if preset.Sample.RuleID != "" {
			keys += ", rule_id: " + preset.Sample.RuleID
		}
		if preset.OAuthScope != "" {
			keys += fmt.Sprintf(", auth: {oauth: {token_url: %q, client_id: bridge, client_secret: %s}}", at.scheme+at.http(name+"-token")+"/token", quoted())
			all.tokens = append(all.tokens, name)
		}
		hook(name, path, keys)
		open := require.Value(preset.Open(preset.Sample))(t)
		if open.RequestsPerSecond > 0 {
			all.limited = append(all.limited, name)
		}
	}

	// broker are the keys of a connection to NATS. name is that of its files.
	broker := func(name string) string {
		server, login := "nats://"+at.nats, ""
		switch at.login {
		case 0:
			login = "token: " + quoted()
		case 1:
			login = "username: ana, password: " + quoted()
		case 2:
			server, login = "nats://ana:"+inURL()+"@"+at.nats, "tls: "+files
		case 3:
			login = "creds_file: " + file(name+"-creds", creds)
		case 4:
			login = "nkey_file: " + file(name+"-nkey", seed()+"\n")
		}
		return fmt.Sprintf("url: %q, %s", server, login)
	}
	kafka := fmt.Sprintf("sasl: {mechanism: plain, username: ana, password: %s}", quoted())
	switch at.login {
	case 1:
		kafka = token("intake-token")
	case 2:
		kafka += ", tls: " + files
	}
	fmt.Fprintf(&text, "tickets:\n  enabled: true\n  nats: {%s, stream: TICKETS}\n", broker("intake"))
	fmt.Fprintf(&text, "  kafka: {brokers: [%q], %s}\n", at.kafka, kafka)
	fmt.Fprintf(&text, "  webhooks:\n    jira: {secret: %s}\n    servicenow: {secret: %s}\n    generic: [{name: tracker, secret: %s}]\n", quoted(), quoted(), quoted())

	if at.cluster {
		servers := broker("cluster")
		if at.embedded {
			servers = fmt.Sprintf(`embedded: {peers: ["a.example:6222", "b.example:6222", "c.example:6222"], tls: {cert_file: %[1]s, key_file: %[2]s, ca_file: %[1]s}}`, certFile, keyFile)
		}
		fmt.Fprintf(&text, "cluster: {name: prod, member: a, nats: {%s}}\n", servers)
	}

	all.text = text.String()
	file("ndrbridge.yaml", all.text)
	config := require.Value(configs.Load(configs.Source{Paths: []string{all.file}}))(t)
	all.secrets = secretsIn(t, config)
	all.needles = all.secrets.needles()
	return all
}

func TestEverySecretIsConfiguredInThisTest(t *testing.T) {
	there := map[string]bool{}
	for login := range natsLogins + 1 {
		all := confide(t, "http://good.example", addresses{
			scheme: "https://", http: func(name string) string { return name + ".example" }, kafka: "kafka.example:9092", nats: "nats.example:4222",
			login: login % natsLogins, cluster: true, embedded: login == natsLogins, adminTLS: true,
		})
		for key, words := range all.secrets {
			there[key] = there[key] || strings.Join(words, "") != ""
		}
	}
	for _, key := range keysOfSecrets(t) {
		assert.True(t, there[key], key, "is not configured: no test says that it is shown nowhere")
	}
}

// service is a bridge that runs as the command line runs it.
type service struct {
	all      confidential
	out, log locked.Buffer
	stop     func()
	address  string
}

func serve(t *testing.T, all confidential) *service {
	t.Helper()
	s := &service{all: all}
	ctx, cancel := context.WithCancel(t.Context())
	c := &command{stdout: &s.out, stderr: &s.log, environ: []string{"GOGC=100"}}
	done := make(chan int, 1)
	go func() { done <- commandline.Run(ctx, c.root(), []string{"run", "--config", all.file}, &s.out, &s.log) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		<-done
		expectNone(t, "the log", s.log.String(), all.needles)
		expectNone(t, "an event", s.out.String(), all.needles)
	})
	t.Cleanup(s.stop)
	await(t, "the bridge to run", func() bool {
		at := regexp.MustCompile(`msg=running admin=(\S+)`).FindStringSubmatch(s.log.String())
		if at != nil {
			s.address = at[1]
		}
		return at != nil
	})
	return s
}

// look looks for secrets wherever people and machines look.
func (s *service) look(t *testing.T, when string) (status string) {
	t.Helper()
	token := s.all.secrets["admin.token"][0]
	for _, path := range []string{"/api/v1/status", "/metrics", "/readyz", "/"} {
		_, text := s.get(t, path, token)
		expectNone(t, path+" after "+when, text, s.all.needles)
		if path == "/api/v1/status" {
			status = text
		}
	}
	return status
}

func (s *service) get(t *testing.T, path, token string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.address+path, nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	answer := require.Value(http.DefaultClient.Do(r))(t)
	defer answer.Body.Close()
	body := require.Value(io.ReadAll(answer.Body))(t)
	return answer.StatusCode, string(body)
}

// goodAppliance has events to deliver.
func goodAppliance(t *testing.T) (*standin.Appliance, string) {
	t.Helper()
	a := standin.New(standin.Options{Seed: 1})
	a.AddBacklog(50, time.Hour)
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	return a, server.URL
}

// TestNoSecretIsShownForHostileResponses runs alone: its bridge repeats requests as fast as it
// can until each hostile response was received.
func TestNoSecretIsShownForHostileResponses(t *testing.T) {
	slowtest.Skip(t)
	h := &hostile{t: t, asked: make(map[string]int)}
	all := attacks()
	h.begin(all[0])
	a, good := goodAppliance(t)
	c := confide(t, good, addresses{
		scheme: "http://", http: h.serve, kafka: hostileKafka(t), nats: hostileNATS(t),
	})
	// Clients behind a proxy, or that fetch a token first, never reach their own server;
	// sinks with a rate limit would take too long.
	servers := slices.DeleteFunc(slices.Clone(c.names), func(name string) bool {
		return slices.Contains([]string{"cloud", "behind", "behind-proxy"}, name) || slices.Contains(c.tokens, name) || slices.Contains(c.limited, name)
	})
	servers = append(servers, "proxy", "token")
	for _, name := range c.tokens {
		servers = append(servers, name+"-token")
	}
	s := serve(t, c)
	for _, m := range all {
		h.begin(m)
		await(t, m.name, func() bool {
			few := h.idle(servers)
			if len(few) > 0 {
				a.AddMany(1) // who rejects events has an end of them
			}
			return len(few) == 0
		})
		s.look(t, m.name)
	}
	token := c.secrets["admin.token"][0]
	for _, owner := range c.sinks {
		status, text := s.get(t, "/api/v1/sinks/"+owner+"/dead?limit=1000", token)
		assert.Equal(t, status, http.StatusOK, "the dead letters of", owner, text)
		expectNone(t, "a dead letter of "+owner, text, c.needles)
	}
	for _, path := range []string{"/api/v1/status", "/api/v1/sinks/none/dead", "/nothing"} {
		for _, shown := range []string{token, "another token"} {
			_, text := s.get(t, path, shown)
			expectNone(t, path, text, c.needles)
		}
	}
	address := []string{"--admin", s.address, "--token-file", filepath.Join(t.TempDir(), "token")}
	require.NoError(t, os.WriteFile(address[3], []byte(token), 0o600))
	for _, args := range [][]string{{"status"}, {"dead", "list", "basic"}, {"dead", "list", "elasticsearch"}} {
		code, out, errs := try(t, append(args, address...)...)
		assert.Equal(t, code, 0, args, "exit code", errs)
		expectNone(t, "the command line", out+errs, c.needles)
	}
	for _, owner := range []struct{ name, reason string }{{"lake", "topic ndr."}, {"basic", "http://"}} {
		if _, text := s.get(t, "/api/v1/sinks/"+owner.name+"/dead?limit=1000", token); !strings.Contains(text, owner.reason) || !strings.Contains(text, "[redacted]") {
			t.Errorf("no dead letter of %s has a reason that repeats a secret: %.500s", owner.name, text)
		}
	}
	for _, sentence := range []string{"create topic new: [44]", "stream NDR: [10052]"} {
		assert.Contains(t, s.log.String(), sentence)
	}
	s.stop()
	state := require.Value(os.ReadFile(filepath.Join(filepath.Dir(c.file), "state.db")))(t)
	expectNone(t, "the state file", string(state), c.needles)
}

func TestNoSecretIsShownForUnreachableServers(t *testing.T) {
	t.Parallel()
	closed := func() string {
		l := require.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
		defer l.Close()
		return l.Addr().String()
	}()
	h := &hostile{t: t, asked: make(map[string]int)}
	h.begin(attack{"a proxy that refuses", func(w http.ResponseWriter, _ *http.Request, echo string) {
		w.Header().Set("X-Said", strings.Map(printableASCII, echo))
		w.WriteHeader(http.StatusProxyAuthRequired)
		fmt.Fprint(w, echo)
	}})
	plain := h.serve("plain")
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	everywhere := func(address string) func(string) string { return func(string) string { return address } }
	for i, test := range []struct {
		name string
		at   addresses
	}{
		{"nobody listens", addresses{scheme: "http://", http: everywhere(closed), kafka: closed, nats: closed}},
		{"the name does not resolve", addresses{scheme: "https://", http: everywhere("no-such-host.invalid"), kafka: "no-such-host.invalid:1", nats: "no-such-host.invalid:1"}},
		{"a certificate that nobody vouches for", addresses{scheme: "https://", http: everywhere(secure.Listener.Addr().String()), kafka: secure.Listener.Addr().String(), nats: closed, proxy: "https"}},
		{"nobody that speaks TLS", addresses{scheme: "https://", http: everywhere(plain), kafka: closed, nats: closed}},
		{"a proxy that speaks something else", addresses{scheme: "https://", http: everywhere(plain), kafka: closed, nats: closed, proxy: "socks5"}},
		{"a link-local address", addresses{scheme: "http://", http: func(name string) string {
			if slices.Contains([]string{"key", "behind", "token", "cloud"}, name) {
				return closed
			}
			return "169.254.169.254"
		}, kafka: closed, nats: closed}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, good := goodAppliance(t)
			test.at.login = i % natsLogins
			c := confide(t, good, test.at)
			s := serve(t, c)
			// out delivers; everybody else fails.
			failing := len(c.sinks) - 1 + 3
			await(t, "everybody to fail", func() bool {
				return strings.Count(s.look(t, test.name), `"error":`) >= failing
			})
			s.stop()
		})
	}
}

func TestNoSecretIsShownForHostileServersOfACluster(t *testing.T) {
	t.Parallel()
	c := confide(t, "http://good.example", addresses{
		scheme: "http://", http: func(string) string { return "169.254.169.254" }, kafka: "127.0.0.1:1", nats: hostileNATS(t), cluster: true,
	})
	ctx, cancel := context.WithCancel(t.Context())
	var log locked.Buffer
	member := &command{stdout: &log, stderr: &log, environ: []string{"GOGC=100"}}
	done := make(chan int, 1)
	go func() { done <- commandline.Run(ctx, member.root(), []string{"run", "--config", c.file}, &log, &log) }()
	await(t, "an answer of JetStream", func() bool { return strings.Contains(log.String(), "err_code=10052") })
	cancel()
	<-done
	expectNone(t, "the log", log.String(), c.needles)
	answered := false
	for n := 0; n < 10*7 && !answered; n++ { // one of the servers' answers each time
		_, out, errs := try(t, "cluster", "init", "--config", c.file)
		expectNone(t, "cluster init", out+errs, c.needles)
		answered = strings.Contains(errs, "err_code=10052")
	}
	assert.True(t, answered, "no answer of JetStream")
}

func TestNoSecretIsShownForConfigurationErrors(t *testing.T) {
	t.Parallel()
	at := addresses{
		scheme: "https://", http: func(name string) string { return name + ".example" }, kafka: "kafka.example:9092", nats: "nats.example:4222", cluster: true,
	}
	all := confide(t, "http://good.example", at)
	shown := func(t *testing.T, args ...string) (int, string) {
		t.Helper()
		code, out, errs := try(t, append(args, "--config", all.file)...)
		expectNone(t, strings.Join(args, " "), out+errs, all.needles)
		return code, out + errs
	}
	for _, args := range [][]string{{"check"}, {"config", "print"}} {
		if code, text := shown(t, args...); code != 0 {
			t.Fatalf("%v: %s", args, text)
		}
	}
	// Every secret, or what it is in, is a text of its own.
	literal := regexp.MustCompile(`[ \[]('[^']*sesame[^']*'|"[^"]*sesame[^"]*"|whsec_\w+)`)
	spans := literal.FindAllStringSubmatchIndex(all.text, -1)
	if rest := literal.ReplaceAllString(all.text, ""); len(spans) == 0 || strings.Contains(rest, "sesame") {
		t.Fatalf("%d secrets are changed, and not those of\n%s", len(spans), rest)
	}
	// change changes some of the secrets.
	change := func(t *testing.T, spans [][]int, by func(value string) string) {
		t.Helper()
		var text strings.Builder
		end := 0
		for _, span := range spans {
			text.WriteString(all.text[end:span[2]] + by(all.text[span[2]:span[3]]))
			end = span[3]
		}
		require.NoError(t, os.WriteFile(all.file, []byte(text.String()+all.text[end:]), 0o600))
	}
	every := 4 // each secret is changed alone in one of the ways
	if testing.Short() {
		every = 10
	}
	for n, test := range []struct {
		name  string
		apart bool
		by    func(value string) string
	}{
		{"lists", false, func(v string) string { return "[" + v + "]" }},
		{"keys with values", false, func(v string) string { return "{" + v + ": " + v + "}" }},
		{"bad escapes", false, func(v string) string { return v[:1] + "%zz" + v[1:] }},
		{"line ends in them", false, func(v string) string { return `"a\n` + strings.NewReplacer(`"`, `\"`, "'", "").Replace(v) + `"` }},
		{"other schemes", false, func(v string) string {
			return strings.NewReplacer("https://", "gopher://", "nats://", "gopher://").Replace(v)
		}},
		{"ports that are none", false, func(v string) string {
			return strings.NewReplacer(".example", ".example:x", ":4222", ":99999").Replace(v)
		}},
		{"quotes that are open", true, func(v string) string { return v[:len(v)-1] }},
		{"no quotes", true, func(v string) string { return strings.Trim(v, `'"`) }},
		{"anchors that are none", true, func(v string) string { return "*" + strings.Trim(v, `'"`) }},
		{"tags that are none", true, func(v string) string { return "!" + strings.Trim(v, `'"`) + " " + v }},
	} {
		t.Run(test.name, func(t *testing.T) {
			together := spans
			if test.apart {
				together = nil
				for i := range spans {
					if i%every != n%every {
						continue
					}
					// Text that is invalid YAML afterwards is reported alone.
					change(t, spans[i:i+1], test.by)
					_, err := configs.Load(configs.Source{Paths: []string{all.file}})
					if err == nil {
						together = append(together, spans[i])
						continue
					}
					expectNone(t, "an error", err.Error(), all.needles)
					if i%5 == 0 {
						shown(t, "check")
					}
				}
			}
			change(t, together, test.by)
			shown(t, "check")
		})
	}
	at.cluster = false // a member would try to reach the others
	all = confide(t, "http://good.example", at)
	for _, change := range []struct{ name, from, to, want string }{
		{"an unknown key", "sinks:\n", "colour: red\nsinks:\n", "colour"},
		{"a sink twice", "name: basic,", "name: bearer,", "bearer"},
		{"an authority that is none", "tls: {cert_file", "tls: {ca_file: " + all.file + ", cert_file", "PEM"},
		{"an address that is taken", "127.0.0.1:0", loopback.Silent(t), "in use"},
		{"a token that no server takes", "auth: {bearer: '", "auth: {bearer: '" + strings.Repeat("sesame904", 1000), "Authorization"},
		{"a header that no server takes", "X-Api-Key: '", "X-Api-Key: '" + strings.Repeat("sesame904", 1000), "X-Api-Key"},
		{"a header by another's name", "X-Api-Key: '", "Content-Length: '", "Content-Length"},
	} {
		t.Run("at the start: "+change.name, func(t *testing.T) {
			text := strings.Replace(all.text, change.from, change.to, 1)
			require.NoError(t, os.WriteFile(all.file, []byte(text), 0o600))
			code, printed := shown(t, "run")
			if code == 0 || !strings.Contains(printed, change.want) || strings.Contains(printed, "sesame904") {
				t.Errorf("exit code %d, want %q in\n%s", code, change.want, printed)
			}
		})
	}
}
