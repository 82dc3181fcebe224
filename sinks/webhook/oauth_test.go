package webhook_test

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/oauthtoken"
	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
	"ndrbridge/test/assert"
	"ndrbridge/test/findingtest"
	"ndrbridge/test/loopback"
	"ndrbridge/test/presettest"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

// client returns the credentials that a token server at this URL knows.
func client(tokenURL string) *oauthtoken.Grant {
	return &oauthtoken.Grant{TokenURL: tokenURL, ClientID: presettest.ClientID, ClientSecret: presettest.ClientSecret}
}

// guard answers 401 unless a request carries the newest token. requests counts all.
func guard(t *testing.T, s *presettest.TokenServer, requests *atomic.Int64) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		requests.Add(1)
		if !s.Valid(r.Header.Get("Authorization")) {
			http.Error(w, "you sent "+r.Header.Get("Authorization"), http.StatusUnauthorized)
			return
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestATokenAuthorizesEveryRequest(t *testing.T) {
	for _, test := range []struct {
		name    string
		options webhook.Options
		want    int64 // requests
	}{
		{"in structured mode", webhook.Options{Concurrency: 4}, 40},
		{"in binary mode", webhook.Options{Mode: transform.Binary, Concurrency: 4}, 40},
		{"in batch mode, compressed", webhook.Options{Mode: transform.Batch, Gzip: true}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			tokens := presettest.NewTokenServer(t)
			var requests atomic.Int64
			test.options.URL, test.options.OAuth = guard(t, tokens, &requests), client(tokens.URL)
			s := open(t, test.options)
			require.NoError(t, s.Send(t.Context(), sinktest.Events(40, 40, 0)))
			issued, refused := tokens.Counts()
			assert.True(t, issued == 1 && refused == 0 && requests.Load() == test.want, issued, "tokens", refused, "refusals", requests.Load(), "requests")
		})
	}
}

func TestTheClientIdentifiesItselfAsTheServerExpects(t *testing.T) {
	for _, test := range []struct {
		accepts         string
		style           oauth2.AuthStyle
		issued, refused int
	}{
		{"header", 0, 2, 0},
		{"params", 0, 2, 1}, // what works is used from then on
		{"", 0, 2, 0},
		{"header", oauth2.AuthStyleInHeader, 2, 0},
		{"params", oauth2.AuthStyleInParams, 2, 0},
		{"header", oauth2.AuthStyleInParams, 0, 1},
		{"params", oauth2.AuthStyleInHeader, 0, 1},
	} {
		t.Run(fmt.Sprintf("style %d at a server for %q", test.style, test.accepts), func(t *testing.T) {
			tokens := presettest.NewTokenServer(t)
			tokens.Style, tokens.ExpiresIn = test.accepts, -1
			tokens.Scope, tokens.Audience = "https://monitor.example//.default other", "https://api.example/"
			var requests atomic.Int64
			o := client(tokens.URL)
			o.Style, o.Scope, o.Audience = test.style, " https://monitor.example//.default  other ", tokens.Audience
			s := open(t, webhook.Options{URL: guard(t, tokens, &requests), Mode: transform.Batch, OAuth: o})
			for range 2 {
				err := s.Send(t.Context(), sinktest.Events(1, 1, 0))
				class, _ := failure.ClassOf(err)
				require.True(t, (test.issued <= 0 || err == nil) && (test.issued != 0 || class == failure.Halted), "class", class, err)
				if test.issued == 0 {
					break
				}
			}
			issued, refused := tokens.Counts()
			assert.True(t, issued == test.issued && refused == test.refused, issued, "tokens", refused, "refusals")
		})
	}
}

func TestATokenThatIsRefusedIsReplacedOnce(t *testing.T) {
	for _, test := range []struct {
		name     string
		valid    int // the number of the token that is accepted
		class    failure.Class
		requests int64
	}{
		{"the second token is accepted", 2, "", 2},
		{"none is accepted", 0, failure.Halted, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			tokens := presettest.NewTokenServer(t)
			var requests atomic.Int64
			var body string
			target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				received, _ := io.ReadAll(r.Body)
				body = string(received)
				if r.Header.Get("Authorization") != fmt.Sprint("Bearer issued-t0ken-", test.valid) {
					http.Error(w, strings.Repeat("no ", 1000)+r.Header.Get("Authorization"), http.StatusUnauthorized)
				}
			}))
			t.Cleanup(target.Close)
			s := open(t, webhook.Options{URL: target.URL, Mode: transform.Batch, OAuth: client(tokens.URL)})
			events := sinktest.Events(1, 1, 0)
			err := s.Send(t.Context(), events)
			class, _ := failure.ClassOf(err)
			assert.True(t, (err == nil) == (test.class == "") && (err == nil || class == test.class), "class", class, err)
			issued, _ := tokens.Counts()
			assert.True(t, requests.Load() == test.requests && issued == 2 && body == "["+string(events[0].Structured())+"]", requests.Load(), issued, body)
		})
	}
}

func TestFailedTokenRequestsAreClassified(t *testing.T) {
	answer := func(status int, header, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if name, value, ok := strings.Cut(header, ": "); ok {
				w.Header().Set(name, value)
			}
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	cut := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			w.WriteHeader(status)
			fmt.Fprint(w, `{"access_token":"t`)
		}
	}
	switched := func(w http.ResponseWriter, _ *http.Request) {
		connection, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer connection.Close()
		fmt.Fprint(connection, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
		_, _ = io.Copy(io.Discard, connection) // until the client closes it
	}
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		class  failure.Class
		wait   time.Duration
		says   string
	}{
		{"a wrong secret", answer(401, "", `{"error":"invalid_client","error_description":"AADSTS7000215: Invalid client secret provided."}`), failure.Halted, 0, "invalid_client: AADSTS7000215"},
		{"a wrong secret with 400", answer(400, "", `{"error":"invalid_client"}`), failure.Halted, 0, "may have expired"},
		{"a wrong scope", answer(400, "", `{"error":"invalid_scope"}`), failure.Halted, 0, "auth.oauth.scope"},
		{"a client that may not", answer(400, "", `{"error":"unauthorized_client"}`), failure.Halted, 0, "client credentials grant"},
		{"an error with 200", answer(200, "", `{"error":"invalid_client"}`), failure.Halted, 0, "client secret"},
		{"a wrong address", answer(404, "", `<html>`), failure.Halted, 0, "token_url"},
		{"a redirect", answer(302, "Location: https://elsewhere.example", ""), failure.Halted, 0, "302"},
		{"a status that would reject an event", answer(422, "", ""), failure.Halted, 0, "422"},
		{"a page instead of a token", answer(200, "", `<html>`), failure.Halted, 0, "token_url"},
		{"an answer that is too large", answer(200, "", strings.Repeat(" ", 70<<10)+`{"access_token":"t"}`), failure.Halted, 0, "token_url"},
		{"no token", answer(200, "", `{"token_type":"Bearer"}`), failure.Halted, 0, "token_url"},
		{"a token with a line break", answer(200, "", `{"access_token":"a\r\nb"}`), failure.Halted, 0, "line break"},
		{"a token that is too large", answer(200, "", `{"access_token":"`+strings.Repeat("t", 9000)+`"}`), failure.Halted, 0, "at most 8192"},
		{"a failure", answer(500, "", "oops"), failure.Transient, 0, "500"},
		{"a server that is down", answer(503, "", ""), failure.Transient, 0, "503"},
		{"a server that asks for a wait", answer(503, "Retry-After: 7", ""), failure.Throttled, 7 * time.Second, "503"},
		{"too many requests", answer(429, "Retry-After: 9", ""), failure.Throttled, 9 * time.Second, "429"},
		{"half a token", cut(200), failure.Transient, 0, "incomplete"},
		{"half a refusal", cut(403), failure.Halted, 0, "403"},
		{"another protocol, and silence", switched, failure.Transient, 0, "101"},
		{"nothing in time", func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); <-r.Context().Done() }, failure.Transient, 0, "no answer within 300ms"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				test.answer(w, r)
			}))
			t.Cleanup(tokens.Close)
			target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") }))
			t.Cleanup(target.Close)
			timeout := 5 * time.Second
			if strings.HasPrefix(test.says, "no answer") {
				timeout = 300 * time.Millisecond
			}
			s := open(t, webhook.Options{URL: target.URL, Mode: transform.Batch, Timeout: timeout, OAuth: client(tokens.URL)})
			err := s.Send(t.Context(), sinktest.Events(3, 1, 0))
			class, wait := failure.ClassOf(err)
			require.True(t, err != nil && class == test.class && wait == test.wait, "class", class, "wait", wait, err)
			assert.True(t, strings.Contains(err.Error(), test.says) && strings.Contains(err.Error(), "token endpoint "+tokens.URL), err)
			refused := strings.HasPrefix(err.Error(), "POST to the token endpoint "+tokens.URL+": 40")
			n := asked.Load()
			assert.True(t, n <= 1 || refused, n, "requests, though the client was not refused")
		})
	}
}

func TestTokenEndpointsThatCannotBeReached(t *testing.T) {
	closed := loopback.Closed(t)
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusProxyAuthRequired) }))
	t.Cleanup(proxy.Close)
	through := require.Value(url.Parse(proxy.URL))(t)
	for _, test := range []struct {
		name, url string
		options   webhook.Options
		class     failure.Class
		says      string
	}{
		{"nobody listens", "http://ana:s3cret@" + closed + "/s3cret?k=s3cret", webhook.Options{}, failure.Transient, "refuses connections; nothing listens there"},
		{"a name that does not resolve", "https://no-such-host.invalid/?k=s3cret", webhook.Options{}, failure.Transient, "no-such-host.invalid"},
		{"a certificate that nobody vouches for", secure.URL, webhook.Options{}, failure.Halted, "tls.ca_file"},
		{"a metadata service", "http://169.254.169.254/token", webhook.Options{}, failure.Halted, "allow_link_local"},
		{"a proxy that refuses", "https://id.example/token", webhook.Options{Proxy: through}, failure.Halted, "407"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.options.URL, test.options.Mode, test.options.OAuth = "http://127.0.0.1:1", transform.Batch, client(test.url)
			err := open(t, test.options).Send(t.Context(), sinktest.Events(1, 1, 0))
			sinktest.ExpectFailure(t, err, test.class, test.says, "token endpoint")
			sinktest.ExpectHidden(t, err, "s3cret")
		})
	}
	t.Run("the caller's context ends", func(t *testing.T) {
		silent := loopback.Serve(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err := open(t, webhook.Options{URL: "http://127.0.0.1:1", Mode: transform.Batch, OAuth: client("http://" + silent)}).Send(ctx, sinktest.Events(1, 1, 0))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestTheTokenEndpointHasItsOwnName(t *testing.T) {
	certificate, pool := sinktest.Certificate(t) // for 127.0.0.1
	tokens := presettest.NewTokenServer(t)
	secure := httptest.NewUnstartedServer(tokens)
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	secure.StartTLS()
	t.Cleanup(secure.Close)
	var requests atomic.Int64
	target := guard(t, tokens, &requests)
	o := client(secure.URL + "/oauth2/v2.0/token")
	elsewhere := strings.Replace(target, "127.0.0.1", "localhost", 1)
	for _, test := range []struct {
		name, url string
		class     failure.Class
	}{
		{"server_name is that of the target", elsewhere, ""},
		{"server_name is that of both", target, failure.Halted},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := open(t, webhook.Options{URL: test.url, Mode: transform.Batch, OAuth: o, TLS: &tls.Config{RootCAs: pool, ServerName: "hooks.example"}})
			err := s.Send(t.Context(), sinktest.Events(1, 1, 0))
			class, _ := failure.ClassOf(err)
			assert.True(t, (err != nil) == (test.class != "") && (err == nil || class == test.class), "class", class, err)
		})
	}
}

func TestNoErrorShowsTokensOrClientSecrets(t *testing.T) {
	basic := base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(presettest.ClientID) + ":" + url.QueryEscape(presettest.ClientSecret)))
	secrets := []string{presettest.ClientSecret, url.QueryEscape(presettest.ClientSecret), basic, "issued-t0ken"}
	safe := func(t *testing.T, err error) {
		t.Helper()
		require.True(t, err != nil, "no")
		for _, secret := range secrets {
			assert.NotContains(t, err.Error(), secret, "it shows", err)
		}
	}
	echo := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			w.WriteHeader(status)
			fmt.Fprint(w, "you sent "+r.Header.Get("Authorization")+" and "+string(body[:min(len(body), 200)]))
		}
	}
	for _, style := range []oauth2.AuthStyle{0, oauth2.AuthStyleInHeader, oauth2.AuthStyleInParams} {
		for _, status := range []int{200, 400, 401, 404, 500} {
			t.Run(fmt.Sprintf("the token endpoint repeats the request with %d, style %d", status, style), func(t *testing.T) {
				server := httptest.NewServer(echo(status))
				t.Cleanup(server.Close)
				o := client(server.URL)
				o.Style = style
				safe(t, open(t, webhook.Options{URL: "http://127.0.0.1:1", Mode: transform.Batch, OAuth: o}).Send(t.Context(), sinktest.Events(1, 1, 0)))
			})
		}
	}
	for _, mode := range modes {
		for _, status := range []int{302, 401, 403, 422, 500} {
			t.Run(fmt.Sprintf("the target repeats the token with %d in mode %s", status, mode), func(t *testing.T) {
				tokens := presettest.NewTokenServer(t)
				server := httptest.NewServer(echo(status))
				t.Cleanup(server.Close)
				s := open(t, webhook.Options{URL: server.URL, Mode: mode, OAuth: client(tokens.URL)})
				for range 6 { // with 401, each Send uses another token
					err := s.Send(t.Context(), sinktest.Events(1, 1, 0))
					safe(t, err)
					assert.True(t, mode == transform.Batch || strings.Contains(err.Error(), "[redacted]"), err)
				}
			})
		}
	}
}

func TestTheTokenIsChecked(t *testing.T) {
	tokens := presettest.NewTokenServer(t)
	forever := presettest.NewTokenServer(t)
	forever.ExpiresIn = 0
	throttling := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }))
	t.Cleanup(throttling.Close)
	var requests atomic.Int64
	target := guard(t, tokens, &requests)
	wrong := client(tokens.URL)
	wrong.ClientSecret = "another"
	for name, test := range map[string]struct {
		o    *oauthtoken.Grant
		want findingtest.Row
	}{
		"a token":                    {client(tokens.URL), findingtest.Row{Step: "token", Result: finding.OK, Detail: "issued a token for 59m59s"}},
		"a token that stays valid":   {client(forever.URL), findingtest.Row{Step: "token", Result: finding.OK, Detail: "does not expire"}},
		"a wrong secret":             {wrong, findingtest.Row{Step: "token", Result: finding.Failed, Detail: "invalid_client: no such client", Advice: "auth.oauth"}},
		"an endpoint that throttles": {client(throttling.URL), findingtest.Row{Step: "token", Result: finding.Warning, Detail: "429", Advice: "later"}},
		"plain http":                 {client(tokens.URL), findingtest.Row{Step: "token tls", Result: finding.Warning, Detail: "client secret", Advice: "https"}},
	} {
		t.Run(name, func(t *testing.T) {
			found := open(t, webhook.Options{URL: target, OAuth: test.o}).Check(t.Context(), sinks.Trial{Now: time.Now})
			findingtest.Expect(t, found, test.want)
		})
	}
	assert.Equal(t, requests.Load(), 0, "requests were sent to the target")
}
