package appliance

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"ndrbridge/test/assert"
	"ndrbridge/test/certificate"
	"ndrbridge/test/require"
)

// pool returns the certificates of a CA file.
func pool(t *testing.T, certificates ...tls.Certificate) *x509.CertPool {
	t.Helper()
	p := x509.NewCertPool()
	for _, c := range certificates {
		require.True(t, p.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Leaf.Raw})), "no certificate")
	}
	return p
}

func TestTLS(t *testing.T) {
	soon := time.Now().Add(time.Hour)
	ca := certificate.New(t, "ca.example", soon, nil)
	otherCA := certificate.New(t, "other-ca.example", soon, nil)
	selfSigned := certificate.New(t, "127.0.0.1", soon, nil)
	signed := certificate.New(t, "127.0.0.1", soon, &ca)
	named := certificate.New(t, "sensor.example", soon, &ca)
	expired := certificate.New(t, "127.0.0.1", time.Now().Add(-time.Hour), &ca)
	client := certificate.New(t, "bridge.example", soon, &ca)
	untrusted := certificate.New(t, "bridge.example", soon, &otherCA)

	for name, test := range map[string]struct {
		server     tls.Certificate
		clientAuth tls.ClientAuthType
		client     *tls.Config
		says       string // empty: it works
	}{
		"a self-signed certificate":                     {server: selfSigned, says: "set tls.ca_file"},
		"a self-signed certificate in the CA file":      {server: selfSigned, client: &tls.Config{RootCAs: pool(t, selfSigned)}},
		"a self-signed certificate that is not checked": {server: selfSigned, client: &tls.Config{InsecureSkipVerify: true}},
		"an authority that nobody knows":                {server: signed, says: "set tls.ca_file to the certificate of that authority"},
		"an authority in the CA file":                   {server: signed, client: &tls.Config{RootCAs: pool(t, otherCA, ca)}},
		"another authority in the CA file":              {server: signed, client: &tls.Config{RootCAs: pool(t, otherCA)}, says: "set tls.ca_file"},
		"a certificate for another name":                {server: named, client: &tls.Config{RootCAs: pool(t, ca)}, says: "set tls.server_name to one of these names"},
		"a certificate for the name that is set":        {server: named, client: &tls.Config{RootCAs: pool(t, ca), ServerName: "sensor.example"}},
		"a certificate that has expired":                {server: expired, client: &tls.Config{RootCAs: pool(t, ca)}, says: "clock"},
		"a client certificate that is required":         {server: signed, clientAuth: tls.RequireAndVerifyClientCert, client: &tls.Config{RootCAs: pool(t, ca), Certificates: []tls.Certificate{client}}},
		"a client certificate that is missing":          {server: signed, clientAuth: tls.RequireAndVerifyClientCert, client: &tls.Config{RootCAs: pool(t, ca)}, says: "requires a client certificate that it trusts; set tls.cert_file"},
		"a client certificate that the server rejects":  {server: signed, clientAuth: tls.RequireAndVerifyClientCert, client: &tls.Config{RootCAs: pool(t, ca), Certificates: []tls.Certificate{untrusted}}, says: "tls"},
		"versions of TLS that have nothing in common":   {server: signed, client: &tls.Config{RootCAs: pool(t, ca), MaxVersion: tls.VersionTLS12}, clientAuth: -1, says: "the server refuses the TLS handshake: protocol version not supported"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewUnstartedServer(answer(200, "application/json", "[]"))
			server.TLS = &tls.Config{Certificates: []tls.Certificate{test.server}, ClientCAs: pool(t, ca), ClientAuth: max(0, test.clientAuth)}
			if test.clientAuth < 0 {
				server.TLS.MinVersion = tls.VersionTLS13
			}
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			server.StartTLS()
			defer server.Close()
			c := newClientOf(t, func(o *Options) { o.URL, o.TLS = server.URL, test.client })
			err := c.SearchDetections(t.Context(), anySearch, new(Page))
			if test.says == "" {
				assert.NoError(t, err)
				return
			}
			e := failureOf(t, err)
			assert.True(t, e.Status == 0 && strings.Contains(e.Error(), test.says), e)
		})
	}
}

func TestHTTPToATLSPort(t *testing.T) {
	plain := httptest.NewServer(answer(200, "application/json", "[]"))
	defer plain.Close()
	c := newClientOf(t, func(o *Options) { o.URL = strings.Replace(plain.URL, "http:", "https:", 1) })
	e := failureOf(t, c.SearchDetections(t.Context(), anySearch, new(Page)))
	assert.Contains(t, e.Error(), "the server speaks HTTP instead of TLS", e)
	c = newClientOf(t, func(o *Options) { o.URL = strings.Replace(raw(t, "220 mail.example ESMTP\r\n"), "http:", "https:", 1) })
	e = failureOf(t, c.SearchDetections(t.Context(), anySearch, new(Page)))
	assert.Contains(t, e.Error(), "does not speak TLS", e)
}

func TestFailuresOfTheNetwork(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	goneURL, _ := url.Parse(gone.URL)
	for name, test := range map[string]struct {
		change func(*Options)
		says   string
	}{
		"nothing listens":          {func(o *Options) { o.URL = gone.URL }, "nothing listens there: check host and port in url"},
		"no proxy listens":         {func(o *Options) { o.URL, o.Proxy = "https://sensor.example", goneURL }, "check host and port in proxy"},
		"no proxy listens for TCP": {func(o *Options) { o.URL, o.Proxy = "http://sensor.example", goneURL }, "check host and port in proxy"},
		"the name is not known": {func(o *Options) {
			o.URL = "http://sensor.example"
			o.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "sensor.example", IsNotFound: true}}
			})
		}, "check the host in url"},
		"no name server answers": {func(o *Options) {
			o.URL = "http://sensor.example"
			o.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "timeout", Name: "sensor.example", IsTimeout: true}}
			})
		}, "check this machine's name servers"},
		"no way leads there": {func(o *Options) {
			o.URL = "http://sensor.example"
			o.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("no route to host")}
			})
		}, "and this machine's network"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClientOf(t, test.change)
			e := failureOf(t, c.SearchDetections(t.Context(), anySearch, new(Page)))
			assert.True(t, e.Status == 0 && strings.Contains(e.Error(), test.says), e)
		})
	}
	t.Run("the caller gives up", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			cancel()
			<-r.Context().Done()
		})
		e := failureOf(t, c.SearchDetections(ctx, anySearch, new(Page)))
		assert.True(t, errors.Is(e, context.Canceled) && e.Status == 0, e)
	})
}

const proxyPassword = "pr0xy+pass/word"

// proxy is a forward proxy for http and https that requires a password. It sends
// all requests to one address, whatever host they name.
func proxy(t *testing.T, to string) *url.URL {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", r.Header.Get("Proxy-Authorization"))
		if _, password, _ := r.BasicAuth(); password != proxyPassword {
			w.WriteHeader(http.StatusProxyAuthRequired)
			fmt.Fprintf(w, "not %s", r.Header.Get("Proxy-Authorization"))
			return
		}
		if r.Host == "closed.example:443" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if r.Method != http.MethodConnect {
			w.WriteHeader(http.StatusTeapot)
			fmt.Fprintf(w, "%s by proxy, with %s", r.URL.Host, r.Header.Get("Proxy-Authorization"))
			return
		}
		target, err := net.Dial("tcp", to)
		if err != nil {
			t.Error(err)
			return
		}
		defer target.Close()
		w.WriteHeader(http.StatusOK)
		// What the client has sent already lies in the buffer.
		conn, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		done := make(chan struct{})
		go func() { defer close(done); io.Copy(target, buffered); target.Close() }()
		io.Copy(conn, target)
		conn.Close()
		<-done
	}))
	t.Cleanup(server.Close)
	u := require.Value(url.Parse(server.URL))(t)
	return u
}

func TestProxy(t *testing.T) {
	server := httptest.NewTLSServer(answer(200, "application/json", "[]"))
	defer server.Close()
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AddCert(server.Certificate())
	through := proxy(t, server.Listener.Addr().String())
	with := func(address, password string) *Client {
		p := *through
		p.User = url.UserPassword("ana", password)
		return newClientOf(t, func(o *Options) { o.URL, o.Proxy, o.TLS = address, &p, config })
	}
	search := func(c *Client) error { return c.SearchDetections(t.Context(), anySearch, new(Page)) }

	c := with("https://example.com", proxyPassword)
	assert.NoError(t, search(c))
	c.Close()
	server.CloseClientConnections()

	e := failureOf(t, search(with("http://sensor.example", proxyPassword)), proxyPassword)
	assert.Equal(t, e.Status, http.StatusTeapot, e)
	assert.Equal(t, e.Excerpt, "sensor.example by proxy, with Basic [redacted]", e)
	for _, address := range []string{"http://sensor.example", "https://sensor.example"} {
		e := failureOf(t, search(with(address, "wr0ng")), "wr0ng")
		assert.Contains(t, e.Error(), "the proxy requires a user name and a password", e)
		assert.False(t, e.Refused(), e)
	}
	e = failureOf(t, search(with("https://closed.example", proxyPassword)), proxyPassword)
	assert.Contains(t, e.Error(), "the proxy refused the connection: 403 Forbidden", e)
	assert.False(t, e.Refused(), e)
}
