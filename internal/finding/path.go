package finding

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"

	"ndrbridge/internal/failure"
)

// Path traces the steps of a connection that other code makes: the code dials with the
// context of Watch and uses the TLS configuration of Secure. Path only distinguishes
// the steps, which failure.Explain explains; the code alone decides whether they succeed. A
// Path is for one peer and is safe for concurrent use.
type Path struct {
	failure.Peer
	// Insecure means that certificates are not verified. Secure sets it.
	Insecure bool

	mu         sync.Mutex
	resolved   []string
	unresolved error
	dialling   bool
	connected  string
	refused    error // error of the last address
	shaking    bool
	state      *tls.ConnectionState
	broken     error
	elsewhere  bool // an http.Transport is connecting to another address
}

// Watch returns a context for dials by net.Dialer and requests by http.Transport.
func (p *Path) Watch(ctx context.Context) context.Context {
	locked := func(note func()) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.elsewhere {
			note()
		}
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(address string) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.elsewhere = address != cmp.Or(p.Proxy, p.Address)
		},
		DNSDone: func(d httptrace.DNSDoneInfo) {
			locked(func() {
				p.resolved, p.unresolved = nil, d.Err
				for _, a := range d.Addrs {
					p.resolved = append(p.resolved, a.String())
				}
			})
		},
		ConnectStart: func(_, _ string) { locked(func() { p.dialling = true }) },
		ConnectDone: func(_, address string, err error) {
			locked(func() {
				if err == nil {
					p.connected = address
				} else if !errors.Is(err, context.Canceled) {
					p.refused = err
				}
			})
		},
		TLSHandshakeStart: func() { locked(func() { p.shaking = true }) },
		TLSHandshakeDone: func(state tls.ConnectionState, err error) {
			locked(func() {
				p.shaking = false
				if p.broken = err; err == nil {
					p.state = &state
				}
			})
		},
	})
}

// Secure returns a copy of c that records the handshake in p. It returns nil if c is
// nil.
func (p *Path) Secure(c *tls.Config) *tls.Config {
	if c == nil {
		return nil
	}
	p.TLS, p.Insecure = c, c.InsecureSkipVerify
	c = c.Clone()
	c.VerifyConnection = func(state tls.ConnectionState) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.state = &state
		return nil
	}
	return c
}

// Findings returns findings for the steps taken. err is the error of the traced code,
// or nil. explained reports whether one of the findings explains err.
func (p *Path) Findings(err error) (found []Finding, explained bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	where := p.Address
	if p.Proxy != "" {
		where = p.Proxy
		found = append(found, Finding{Step: "proxy", Result: Remark, Detail: "it is reached through the proxy " + p.Proxy})
	}
	failed := func(e *failure.Explained) []Finding {
		return append(found, Finding{Step: e.Step, Result: Failed, Detail: e.Detail, Advice: e.To})
	}
	e := failure.Explain(err, p.Peer)
	lookup := p.unresolved
	if e != nil && e.Step == failure.StepAddress && lookup == nil && p.connected == "" {
		lookup = err
	}
	switch {
	case lookup != nil:
		if failure.Explain(lookup, p.Peer) == nil { // such as the end of ctx
			lookup = &net.DNSError{Err: lookup.Error()}
		}
		return failed(failure.Explain(lookup, p.Peer)), true
	case len(p.resolved) > 0:
		host, _, _ := net.SplitHostPort(where)
		found = append(found, Finding{Step: "address", Result: OK, Detail: host + " is " + strings.Join(p.resolved, ", ")})
	}
	refused := p.refused
	if refused == nil && (e != nil && e.Step == failure.StepConnect || p.dialling && err != nil) {
		refused = err
	}
	switch {
	case p.connected != "":
		found = append(found, Finding{Step: "connect", Result: OK, Detail: "connected to " + p.connected})
	case refused != nil:
		if failure.Explain(refused, p.Peer) == nil { // such as the end of ctx
			refused = &net.OpError{Op: "dial", Err: refused}
		}
		return failed(failure.Explain(refused, p.Peer)), true
	}
	secured, explained := p.secured(err)
	return append(found, secured...), explained
}

// HostPort returns the host and port of a URL, with the default port of its scheme if
// it has none.
func HostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "socks5": "1080"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// secured returns findings for the handshake; it may not have begun.
func (p *Path) secured(err error) (found []Finding, explained bool) {
	broken := err
	if !failure.HandshakeFailed(err) && p.broken != nil {
		broken = p.broken
	}
	var shown []*x509.Certificate
	if p.state != nil {
		shown = p.state.PeerCertificates
	} else if e, ok := errors.AsType[*tls.CertificateVerificationError](broken); ok {
		shown = e.UnverifiedCertificates
	}
	for _, c := range shown {
		f := certificate(c, p.Time())
		if p.Hide != nil {
			f.Detail = p.Hide(f.Detail)
		}
		found = append(found, f)
	}
	if e := failure.Explain(broken, p.Peer); e != nil && e.Step == failure.StepTLS {
		return append(found, Finding{Step: "tls", Result: Failed, Detail: e.Detail, Advice: e.To}), true
	}
	switch {
	case p.state == nil && p.shaking && err != nil:
		return append(found, Finding{
			Step: "tls", Result: Failed, Detail: "the TLS handshake is not answered",
			Advice: "check scheme and port in " + p.Key + ": the server must speak TLS on this port",
		}), true
	case p.state == nil:
		return found, false
	case p.Insecure:
		found = append(found, Finding{
			Step: "tls", Result: Warning, Detail: tls.VersionName(p.state.Version) + ", but any certificate is accepted: anyone on the network path can read and alter the traffic",
			Advice: "set tls.ca_file to the certificate whose fingerprint you have compared, and remove tls.insecure_skip_verify",
		})
	default:
		found = append(found, Finding{Step: "tls", Result: OK, Detail: fmt.Sprintf("%s, and the certificate is trusted", tls.VersionName(p.state.Version))})
	}
	return found, false
}
