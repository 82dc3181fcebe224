package webhook_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/finding"
	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
	"ndrbridge/test/findingtest"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
)

func TestCheckConnectsAndSendsNothing(t *testing.T) {
	certificate, pool := sinktest.Certificate(t)
	secure := func(t *testing.T) string {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") }))

		s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		t.Cleanup(s.Close)
		return s.URL
	}
	listen := func(t *testing.T) net.Listener {
		l := require.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
		t.Cleanup(func() { l.Close() })
		return l
	}
	trusting := &tls.Config{RootCAs: pool}
	for name, test := range map[string]struct {
		options func(t *testing.T) webhook.Options
		want    findingtest.Row
	}{
		"a receiver that cannot be asked": {
			func(t *testing.T) webhook.Options { return webhook.Options{URL: secure(t), TLS: trusting} },
			findingtest.Row{Step: "delivery", Result: finding.Untried, Detail: "cannot be checked", Advice: "ndrbridge try render"},
		},
		"plain http to a port for TLS": {
			func(t *testing.T) webhook.Options {
				return webhook.Options{URL: "http" + strings.TrimPrefix(secure(t), "https")}
			},
			findingtest.Row{Step: "tls", Result: finding.Failed, Detail: "expects TLS", Advice: "https://"},
		},
		"a certificate that is trusted": {
			func(t *testing.T) webhook.Options { return webhook.Options{URL: secure(t), TLS: trusting} },
			findingtest.Row{Step: "tls", Result: finding.OK, Detail: "TLS 1.3"},
		},
		"a certificate that nobody vouches for": {
			func(t *testing.T) webhook.Options {
				return webhook.Options{URL: secure(t), TLS: &tls.Config{RootCAs: x509.NewCertPool()}}
			},
			findingtest.Row{Step: "tls", Result: finding.Failed, Detail: "self-signed", Advice: "tls.ca_file"},
		},
		"a certificate for another name": {
			func(t *testing.T) webhook.Options {
				return webhook.Options{URL: secure(t), TLS: &tls.Config{RootCAs: pool, ServerName: "hooks.example"}}
			},
			findingtest.Row{Step: "tls", Result: finding.Failed, Detail: "not for hooks.example, but for 127.0.0.1", Advice: "tls.server_name"},
		},
		"a certificate that is not looked at": {
			func(t *testing.T) webhook.Options {
				return webhook.Options{URL: secure(t), TLS: &tls.Config{InsecureSkipVerify: true}}
			},
			findingtest.Row{Step: "tls", Result: finding.Warning, Detail: "any certificate is accepted", Advice: "tls.ca_file"},
		},
		"nobody listens": {
			func(t *testing.T) webhook.Options {
				l := listen(t)
				l.Close()
				return webhook.Options{URL: "http://" + l.Addr().String()}
			},
			findingtest.Row{Step: "connect", Result: finding.Failed, Detail: "refuses connections", Advice: "port in url"},
		},
		"somebody who accepts and says nothing": {
			func(t *testing.T) webhook.Options {
				return webhook.Options{URL: "https://" + listen(t).Addr().String(), Timeout: 50 * time.Millisecond}
			},
			findingtest.Row{Step: "tls", Result: finding.Failed, Detail: "did not answer", Advice: "speaks TLS"},
		},
		"a name that is not known": {
			func(*testing.T) webhook.Options { return webhook.Options{URL: "https://no-such-host.invalid/hook"} },
			findingtest.Row{Step: "address", Result: finding.Failed, Detail: "no-such-host.invalid", Advice: "name servers"},
		},
		"where clouds keep the credentials of machines": {
			func(*testing.T) webhook.Options { return webhook.Options{URL: "http://169.254.169.254/hook"} },
			findingtest.Row{Step: "connect", Result: finding.Failed, Detail: "link-local or metadata", Advice: "allow_link_local"},
		},
		"plain http": {
			func(t *testing.T) webhook.Options { return webhook.Options{URL: "http://" + listen(t).Addr().String()} },
			findingtest.Row{Step: "tls", Result: finding.Warning, Detail: "plain http", Advice: "https"},
		},
		"a proxy, up to which it is tried": {
			func(t *testing.T) webhook.Options {
				return webhook.Options{URL: "https://hooks.example", Proxy: &url.URL{Scheme: "http", Host: listen(t).Addr().String(), User: url.UserPassword("ana", "sesame")}}
			},
			findingtest.Row{Step: "delivery", Result: finding.Untried, Detail: "its proxy can be reached", Advice: "ndrbridge try render"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := require.Value(webhook.New(test.options(t)))(t)
			defer s.Close()
			findingtest.Expect(t, s.Check(t.Context(), sinks.Trial{Now: time.Now}), test.want)
		})
	}
}
