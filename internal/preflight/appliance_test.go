package preflight_test

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ndrbridge/configs"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/preflight"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/certificate"
	"ndrbridge/test/findingtest"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

// check runs preflight.Check with a time limit and requires that it does not create the
// state.
func check(t *testing.T, yaml string, within time.Duration) []finding.Finding {
	t.Helper()
	config := require.Value(configs.Parse("ndrbridge.yaml", []byte(yaml), nil))(t)
	found := preflight.Check(t.Context(), config, preflight.Options{Version: "test", Timeout: within, Now: time.Now})
	if _, err := os.Stat(config.State); err == nil {
		t.Error("the state was made")
	}
	return found
}

// newAuthority returns an authority and the path of its CA file.
func newAuthority(t *testing.T) (ca tls.Certificate, file string) {
	t.Helper()
	ca = certificate.New(t, "Example CA", time.Now().Add(365*24*time.Hour), nil)
	file = filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Leaf.Raw}), 0o600))
	return ca, file
}

func TestCheckAppliance(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	ca, file := newAuthority(t)
	html := func(h *standin.Hazards) { h.HTML = 1 }
	forbidden := func(path string) func(*standin.Hazards) {
		return func(h *standin.Hazards) {
			h.Refusal = standin.RefusedForbidden
			h.Only = func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, path) }
		}
	}
	slow := func(h *standin.Hazards) {
		h.Latency = time.Hour
		h.Only = func(r *http.Request) bool {
			return strings.HasSuffix(r.URL.Path, "/auditlog") || strings.HasSuffix(r.URL.Path, "/records/search")
		}
	}
	records := "records: [{name: dns}]"
	const storeIsOwn = "records: [{name: dns, store: own}]"
	row := func(step string, result finding.Result, detail, advice string) findingtest.Row {
		return findingtest.Row{Step: step, Result: result, Detail: detail, Advice: advice}
	}
	for name, test := range map[string]struct {
		options    standin.Options
		hazards    func(*standin.Hazards)
		skew       time.Duration
		shows      *tls.Certificate // nil: http
		clientAuth tls.ClientAuthType
		url        string // instead of the stand-in's
		keys       string // of the appliance; a key where it is empty
		tickets    bool
		records    int           // of the last minutes
		lacks      string        // a path that is answered with status
		status     int           // 0: 404
		refuses    string        // what no body may hold, or it is answered with 400
		within     time.Duration // 0: 20s
		want       findingtest.Row
	}{
		"an appliance that works": {want: row("detections", finding.OK, "can be read", "")},
		"its firmware":            {want: row("firmware", finding.OK, "26.3.0.1234", "")},
		"its clock":               {want: row("clock", finding.OK, "agrees", "")},
		"plain http":              {want: row("tls", finding.Warning, "plain http", "https")},

		"a certificate of an authority that is trusted": {
			shows: new(certificate.New(t, "127.0.0.1", time.Now().Add(year), &ca)), keys: "tls: {ca_file: " + file + "}",
			want: row("certificate", finding.OK, "CN=127.0.0.1, issued by CN=Example CA", ""),
		},
		"a self-signed certificate": {
			shows: new(certificate.New(t, "127.0.0.1", time.Now().Add(year), nil)),
			want:  row("tls", finding.Failed, "self-signed", "openssl s_client -connect 127.0.0.1:"),
		},
		"the fingerprint of a self-signed certificate": {
			shows: new(certificate.New(t, "127.0.0.1", time.Now().Add(year), nil)),
			want:  row("certificate", finding.OK, "self-signed, until ", ""),
		},
		"an authority that nobody knows": {
			shows: new(certificate.New(t, "127.0.0.1", time.Now().Add(year), &ca)),
			want:  row("tls", finding.Failed, "CN=Example CA", "tls.ca_file"),
		},
		"a certificate of another name": {
			shows: new(certificate.New(t, "sensor.example", time.Now().Add(year), &ca)), keys: "tls: {ca_file: " + file + "}",
			want: row("tls", finding.Failed, "not for 127.0.0.1, but for sensor.example", "tls.server_name"),
		},
		"a certificate that has expired": {
			shows: new(certificate.New(t, "127.0.0.1", time.Now().Add(-24*time.Hour), &ca)), keys: "tls: {ca_file: " + file + "}",
			want: row("tls", finding.Failed, "expired on "+time.Now().Add(-24*time.Hour).UTC().Format(time.DateOnly), "clock"),
		},
		"a certificate that expires soon": {
			shows: new(certificate.New(t, "127.0.0.1", time.Now().Add(10*24*time.Hour+time.Hour), &ca)), keys: "tls: {ca_file: " + file + "}",
			want: row("certificate", finding.Warning, "10 days left", "renew"),
		},
		"a certificate that is not looked at": {
			shows: new(certificate.New(t, "127.0.0.1", time.Now().Add(year), nil)), keys: "tls: {insecure_skip_verify: true}",
			want: row("tls", finding.Warning, "any certificate is accepted", "tls.ca_file"),
		},
		"a client certificate that is wanted": {
			shows: new(certificate.New(t, "127.0.0.1", time.Now().Add(year), &ca)), clientAuth: tls.RequireAnyClientCert, keys: "tls: {ca_file: " + file + "}",
			want: row("tls", finding.Failed, "client certificate", "tls.cert_file"),
		},

		"a port that nobody listens at": {url: "http://" + loopback.Closed(t), want: row("connect", finding.Failed, "refuses connections", "port in url")},
		"a name that is not known":      {url: "https://no-such-host.invalid", want: row("address", finding.Failed, "no-such-host.invalid", "name servers")},
		"a proxy that is not there":     {keys: "proxy: http://" + loopback.Closed(t), want: row("connect", finding.Failed, "refuses connections", "port in proxy")},
		"an appliance that hangs": {
			hazards: func(h *standin.Hazards) { h.Latency = time.Hour }, keys: "timeout: 2s",
			want: row("answer", finding.Failed, "no answer arrives", "overloaded"),
		},
		"an appliance that hangs for longer than a trial waits": {
			hazards: func(h *standin.Hazards) { h.Latency = time.Hour }, within: time.Second,
			want: row("answer", finding.Failed, "no answer arrives within 500ms", "raise --timeout"),
		},
		"an audit log that hangs": {
			hazards: slow, keys: records, within: 2 * time.Second,
			want: row("audit log", finding.Failed, "no complete answer within 1s", "own log"),
		},
		"a query that the time of the trial does not suffice for": {
			hazards: slow, keys: records, within: 2 * time.Second,
			want: row("records dns", finding.Untried, "time of the trial ended", "raise --timeout"),
		},
		"ticket tracking that the time does not suffice for": {
			hazards: slow, keys: records, tickets: true, within: 2 * time.Second,
			want: row("ticketing", finding.Untried, "time of the trial ended", "raise --timeout"),
		},
		"a rate limit that a bridge bears with": {keys: "rate_limit: 0.1", want: row("audit log", finding.OK, "can be read", "")},
		"plain http where TLS is expected": {
			shows: new(certificate.New(t, "127.0.0.1", time.Now().Add(year), nil)), url: "http",
			want: row("tls", finding.Failed, "expects TLS", "https://"),
		},
		"TLS where there is none": {url: "https", want: row("tls", finding.Failed, "speaks HTTP instead of TLS", "scheme")},

		"a wrong key":                      {keys: "api_key: wrong", want: row("key", finding.Failed, "401 Unauthorized, \"Invalid API key\"", "scheme_word")},
		"a key that is refused with a 400": {hazards: func(h *standin.Hazards) { h.Refusal = standin.RefusedText }, want: row("key", finding.Failed, "400", "check the API key")},
		"a wrong client secret": {
			options: standin.Options{OAuth: &standin.OAuth{ClientID: "bridge", ClientSecret: "right"}},
			keys:    "oauth: {token_url: TOKEN, client_id: bridge, client_secret: wrong}",
			want:    row("token", finding.Failed, "invalid_client", "oauth.client_id"),
		},
		"a client that signs in": {
			options: standin.Options{OAuth: &standin.OAuth{ClientID: "bridge", ClientSecret: "right"}},
			keys:    "oauth: {token_url: TOKEN, client_id: bridge, client_secret: right}",
			want:    row("key", finding.OK, "accepts", ""),
		},
		"a token endpoint elsewhere that works, and an appliance that does not": {
			options: standin.Options{OAuth: &standin.OAuth{ClientID: "bridge", ClientSecret: "right"}},
			shows:   new(certificate.New(t, "127.0.0.1", time.Now().Add(year), nil)),
			keys:    "oauth: {token_url: ELSEWHERE, client_id: bridge, client_secret: right}",
			want:    row("tls", finding.Failed, "self-signed", "tls.ca_file"),
		},
		"a token endpoint that is not one": {
			keys: "oauth: {token_url: TOKEN, client_id: bridge, client_secret: right}", options: standin.Options{APIKey: standin.DefaultAPIKey},
			want: row("token", finding.Failed, "404", "only the cloud edition has a token endpoint"),
		},
		"another product's word in paths of the cloud edition": {
			options: standin.Options{Product: "ExtraHop", OAuth: &standin.OAuth{ClientID: "bridge", ClientSecret: "right"}},
			keys:    "oauth: {token_url: TOKEN, client_id: bridge, client_secret: right}",
			want:    row("product", finding.Failed, "404", "vendor's documentation"),
		},
		"a token endpoint elsewhere that is not there": {
			options: standin.Options{OAuth: &standin.OAuth{ClientID: "bridge", ClientSecret: "right"}},
			keys:    "oauth: {token_url: \"http://" + loopback.Closed(t) + "/token\", client_id: bridge, client_secret: right}",
			want:    row("token connect", finding.Failed, "refuses connections", "oauth.token_url"),
		},
		"another product's word in paths":  {options: standin.Options{Product: "ExtraHop"}, keys: "scheme_word: ExtraHop", want: row("product", finding.Failed, "404", "set product")},
		"another product's word":           {options: standin.Options{Product: "ExtraHop"}, keys: "product: ExtraHop", want: row("firmware", finding.OK, "26.3", "")},
		"a page to sign in at":             {hazards: html, want: row("interface", finding.Failed, "HTML page", "appliance's own address")},
		"firmware without mod_time":        {options: standin.Options{Firmware: "8.9.1.2"}, want: row("firmware", finding.Failed, "8.9.1.2", "9.3 or later")},
		"an appliance that starts":         {hazards: func(h *standin.Hazards) { h.ServerError, h.ServerErrorStatus = 1, 503 }, want: row("interface", finding.Failed, "503", "starting up")},
		"a key without the NDR module":     {hazards: forbidden("/detections/search"), want: row("detections", finding.Failed, "403", "NDR module")},
		"a key without the audit log":      {hazards: forbidden("/auditlog"), want: row("audit log", finding.Failed, "403", "administration")},
		"a key that may not query records": {hazards: forbidden("/records/search"), keys: records, want: row("records dns", finding.Failed, "403", "write privileges")},
		"an appliance without a store":     {lacks: "/records/search", keys: records, want: row("records dns", finding.Failed, "404", "no record store")},
		"a record store":                   {records: 3, keys: records, want: row("records dns", finding.OK, "can be read", "")},
		"one that store says to be the product's own, and that returns no cursor": {
			records: 3, options: standin.Options{ThirdPartyRecords: true}, keys: storeIsOwn,
			want: row("records dns", finding.Warning, "returns no cursor", "auto or third_party"),
		},
		"one that store says to be the product's own, and that refuses to be asked for a cursor": {
			records: 3, refuses: "context_ttl", keys: storeIsOwn,
			want: row("records dns", finding.Failed, "answers 400", "store of the query"),
		},
		"a query that is refused": {
			refuses: "types", keys: "records: [{name: dns, types: [\"~dns\"]}]",
			want: row("records dns", finding.Failed, "answers 400", "types and filter"),
		},

		"a clock that is a little ahead": {skew: 20 * time.Second, want: row("clock", finding.Warning, "ahead of", "NTP")},
		"a clock that is far behind":     {skew: -time.Hour, want: row("clock", finding.Warning, "no events are lost", "NTP")},

		"ticket tracking that is on":      {tickets: true, want: row("ticketing", finding.OK, "is on", "")},
		"ticket tracking that is off":     {tickets: true, options: standin.Options{NoTicketing: true}, want: row("ticketing", finding.Failed, "is off", "switch it on")},
		"a key that may write":            {tickets: true, want: row("write", finding.Remark, "may write", "")},
		"a key that only reads":           {tickets: true, hazards: forbidden("/detections/tickets"), want: row("write", finding.Failed, "403", "write privilege")},
		"an appliance that fails a write": {tickets: true, lacks: "/detections/tickets", status: 503, want: row("write", finding.Warning, "503", "check again")},
		"an appliance without writes":     {tickets: true, lacks: "/detections/tickets", status: 405, want: row("write", finding.Warning, "405", "no ticket can be written")},
		"a write of nothing":              {tickets: true, lacks: "/detections/tickets", status: 422, want: row("write", finding.Remark, "422", "")},
		"a write without tracking":        {tickets: true, hazards: forbidden("/ticketing"), lacks: "/detections/tickets", status: 422, want: row("write", finding.Warning, "422", "no ticket can be written")},
		"a key that may not look at that": {tickets: true, hazards: forbidden("/ticketing"), want: row("ticketing", finding.Remark, "cannot be read", "")},
		"an appliance without tracking":   {tickets: true, lacks: "/ticketing", want: row("ticketing", finding.Remark, "404", "")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.options.Seed = 1; test.options.OAuth == nil {
				test.options.APIKey = standin.DefaultAPIKey
			}
			a := standin.New(test.options)
			a.SetSkew(test.skew)
			a.AddMany(20) // some have tickets
			a.AddRecords(test.records)
			if test.hazards != nil {
				var h standin.Hazards
				test.hazards(&h)
				a.SetHazards(h)
			}
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if test.lacks != "" && strings.HasSuffix(r.URL.Path, test.lacks) {
					http.Error(w, "", cmp.Or(test.status, http.StatusNotFound))
					return
				}
				if r.Method == http.MethodPut || r.Method == http.MethodDelete {
					t.Errorf("%s %s: it may have changed something", r.Method, r.URL)
				}
				// Once the body is read, the server sees that a client has hung up.
				body, err := io.ReadAll(r.Body)
				assert.NoError(t, err)
				if test.refuses != "" && bytes.Contains(body, []byte(test.refuses)) {
					http.Error(w, "unknown field", http.StatusBadRequest)
					return
				}
				r.Body = io.NopCloser(bytes.NewReader(body))
				a.ServeHTTP(w, r)
			}))
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			if test.shows != nil {
				server.TLS = &tls.Config{Certificates: []tls.Certificate{*test.shows}, ClientAuth: test.clientAuth}
				server.StartTLS()
			} else {
				server.Start()
			}
			t.Cleanup(server.Close)
			url := server.URL
			switch {
			case test.url == "https":
				url = strings.Replace(url, "http:", "https:", 1)
			case test.url == "http":
				url = strings.Replace(url, "https:", "http:", 1)
			case test.url != "":
				url = test.url
			}
			elsewhere := httptest.NewServer(a)
			t.Cleanup(elsewhere.Close)
			keys := strings.NewReplacer("TOKEN", url+"/oauth2/token", "ELSEWHERE", elsewhere.URL+"/oauth2/token").Replace(test.keys)
			if !strings.Contains(keys, "api_key") && !strings.Contains(keys, "oauth") {
				keys = strings.TrimSuffix("api_key: "+standin.DefaultAPIKey+", "+keys, ", ")
			}
			found := check(t, fmt.Sprintf("state: %s\nappliances: [{name: hq, url: %q, %s}]\nsinks: [{name: out, file: {path: \"-\"}}]\ntickets: {enabled: %t}\nadmin: {token: sesame}\n",
				filepath.Join(t.TempDir(), "state.db"), url, keys, test.tickets), cmp.Or(test.within, 20*time.Second))
			found = slices.DeleteFunc(found, func(f finding.Finding) bool { return f.Target != "appliance hq" })
			findingtest.Expect(t, found, test.want)
			for _, p := range a.Patches() {
				if !test.tickets || p.Path != "/detections/tickets" || len(p.Made) > 0 || string(p.Body) != `{"ticket_id":"ndrbridge-check"}` {
					t.Errorf("PATCH %s of %s made %d versions", p.Path, p.Body, len(p.Made))
				}
			}
		})
	}
}
