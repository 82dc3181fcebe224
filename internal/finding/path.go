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
	"syscall"
	"time"
)

// Path traces the steps of a connection that other code makes: the code dials with the
// context of Watch and uses the TLS configuration of Secure. Path only distinguishes
// and explains the steps; the code alone decides whether they succeed. A Path is for
// one address and is safe for concurrent use.
type Path struct {
	// Address is the host and port of the target.
	Address string
	// Proxy is the host and port that is dialled instead; empty if there is none.
	Proxy string
	// Key is the configuration key that holds the address, such as url.
	Key string
	// Now returns the time that certificates are checked against.
	Now func() time.Time
	// Hide removes secrets from texts of the server's certificates. It may be nil.
	Hide func(string) string
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
	c = c.Clone()
	p.Insecure = c.InsecureSkipVerify
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
	where, key := p.Address, p.Key
	if p.Proxy != "" {
		where, key = p.Proxy, "proxy"
		found = append(found, Finding{Step: "proxy", Result: Remark, Detail: "it is reached through the proxy " + p.Proxy})
	}
	host, _, _ := net.SplitHostPort(where)
	lookup := p.unresolved
	if e, ok := errors.AsType[*net.DNSError](err); ok && lookup == nil && p.connected == "" {
		lookup = e
	}
	switch {
	case lookup != nil:
		return append(found, unresolved(host, key, lookup)), true
	case len(p.resolved) > 0:
		found = append(found, Finding{Step: "address", Result: OK, Detail: host + " is " + strings.Join(p.resolved, ", ")})
	}
	refused := p.refused
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" && refused == nil {
		refused = err
	}
	if refused == nil && p.dialling && err != nil {
		refused = err
	}
	switch {
	case p.connected != "":
		found = append(found, Finding{Step: "connect", Result: OK, Detail: "connected to " + p.connected})
	case refused != nil:
		return append(found, unconnected(where, key, refused)), true
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

// unresolved returns the finding for a name that cannot be resolved.
func unresolved(host, key string, err error) Finding {
	f := Finding{Step: "address", Result: Failed, Detail: host + " cannot be looked up", Advice: "check this machine's name servers (/etc/resolv.conf), and that they answer"}
	if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
		f.Detail, f.Advice = "no address is known for the name "+host, "check the host in "+key+", and the name servers of this machine"
	}
	return f
}

// unconnected returns the finding for a failed dial.
func unconnected(where, key string, err error) Finding {
	f := Finding{Step: "connect", Result: Failed}
	timeout, _ := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		f.Detail = where + " refuses connections"
		f.Advice = "nothing listens there: check host and port in " + key + ", and that the server is running"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		f.Detail = where + " cannot be reached: there is no route to it"
		f.Advice = "check the host in " + key + ", and this machine's network and routes"
	case errors.Is(err, context.DeadlineExceeded), timeout != nil && timeout.Timeout():
		f.Detail = where + " does not answer"
		f.Advice = "a firewall may drop the packets: check host and port in " + key + ", and that this machine may connect there"
	default:
		f.Detail = "no connection to " + where + ": " + lastOf(err).Error()
		f.Advice = "check " + key + ", and this machine's network"
		if e, ok := errors.AsType[advised](err); ok {
			f.Advice = e.Advice()
		}
	}
	return f
}

// lastOf returns the cause of a failed dial without the addresses, which the finding
// has already.
func lastOf(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Err != nil {
		return op.Err
	}
	return err
}

// secured returns findings for the handshake; it may not have begun.
func (p *Path) secured(err error) (found []Finding, explained bool) {
	broken := p.broken
	if broken == nil && err != nil {
		broken = err
	}
	var shown []*x509.Certificate
	if p.state != nil {
		shown = p.state.PeerCertificates
	} else if e, ok := errors.AsType[*tls.CertificateVerificationError](broken); ok {
		shown = e.UnverifiedCertificates
	}
	now := p.Now()
	hide := p.Hide
	if hide == nil {
		hide = func(text string) string { return text }
	}
	for _, c := range shown {
		f := certificate(c, now)
		f.Detail = hide(f.Detail)
		found = append(found, f)
	}
	if detail, advice := handshakeFailure(broken, p.Address, shown, now); detail != "" {
		return append(found, Finding{Step: "tls", Result: Failed, Detail: hide(detail), Advice: hide(advice)}), true
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
