package preflight

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

// Path watches how far a connection comes that other code makes: it dials with the
// context of Watch, and secures by the configuration of Secure. It tells the steps
// apart and explains them; that code alone decides whether they succeed. A Way is
// for one address, and safe for concurrent use.
type Path struct {
	// Address is the host and port that is meant.
	Address string
	// Proxy is the host and port that is dialled in its place; empty: none.
	Proxy string
	// Key is the key of the configuration that has the address, such as url.
	Key string
	// Now is the time that certificates are held against.
	Now func() time.Time
	// Insecure says that certificates are not verified. Secure sets it.
	Insecure bool

	mu         sync.Mutex
	resolved   []string
	unresolved error
	dialling   bool
	connected  string
	refused    error // of the last address
	shaking    bool
	state      *tls.ConnectionState
	broken     error
	elsewhere  bool // an http.Transport connects to another address
}

// Watch returns a context for dials by net.Dialer and requests by http.Transport.
func (w *Path) Watch(ctx context.Context) context.Context {
	locked := func(note func()) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.elsewhere {
			note()
		}
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(address string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.elsewhere = address != cmp.Or(w.Proxy, w.Address)
		},
		DNSDone: func(d httptrace.DNSDoneInfo) {
			locked(func() {
				w.resolved, w.unresolved = nil, d.Err
				for _, a := range d.Addrs {
					w.resolved = append(w.resolved, a.String())
				}
			})
		},
		ConnectStart: func(_, _ string) { locked(func() { w.dialling = true }) },
		ConnectDone: func(_, address string, err error) {
			locked(func() {
				if err == nil {
					w.connected = address
				} else if !errors.Is(err, context.Canceled) {
					w.refused = err
				}
			})
		},
		TLSHandshakeStart: func() { locked(func() { w.shaking = true }) },
		TLSHandshakeDone: func(state tls.ConnectionState, err error) {
			locked(func() {
				w.shaking = false
				if w.broken = err; err == nil {
					w.state = &state
				}
			})
		},
	})
}

// Secure returns a configuration like c that tells w of the handshake. nil stays
// nil.
func (w *Path) Secure(c *tls.Config) *tls.Config {
	if c == nil {
		return nil
	}
	c = c.Clone()
	w.Insecure = c.InsecureSkipVerify
	c.VerifyConnection = func(state tls.ConnectionState) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.state = &state
		return nil
	}
	return c
}

// Findings tells the steps that were taken. err is the error of the code that was
// watched, nil for none. explained says that one of the findings is why it failed.
func (w *Path) Findings(err error) (found []Finding, explained bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	where, key := w.Address, w.Key
	if w.Proxy != "" {
		where, key = w.Proxy, "proxy"
		found = append(found, Finding{Step: "proxy", Result: Remark, Detail: "it is reached through the proxy " + w.Proxy})
	}
	host, _, _ := net.SplitHostPort(where)
	lookup := w.unresolved
	if e, ok := errors.AsType[*net.DNSError](err); ok && lookup == nil && w.connected == "" {
		lookup = e
	}
	switch {
	case lookup != nil:
		return append(found, unresolved(host, key, lookup)), true
	case len(w.resolved) > 0:
		found = append(found, Finding{Step: "address", Result: OK, Detail: host + " is " + strings.Join(w.resolved, ", ")})
	}
	refused := w.refused
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" && refused == nil {
		refused = err
	}
	if refused == nil && w.dialling && err != nil {
		refused = err
	}
	switch {
	case w.connected != "":
		found = append(found, Finding{Step: "connect", Result: OK, Detail: "connected to " + w.connected})
	case refused != nil:
		return append(found, unconnected(where, key, refused)), true
	}
	secured, explained := w.secured(err)
	return append(found, secured...), explained
}

// HostPort is where the host of a URL listens.
func HostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "socks5": "1080"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// unresolved words a name that has no address.
func unresolved(host, key string, err error) Finding {
	f := Finding{Step: "address", Result: Failed, Detail: host + " cannot be looked up", Advice: "check this machine's name servers (/etc/resolv.conf), and that they answer"}
	if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
		f.Detail, f.Advice = "no address is known for the name "+host, "check the host in "+key+", and the name servers of this machine"
	}
	return f
}

// unconnected words a dial that failed.
func unconnected(where, key string, err error) Finding {
	f := Finding{Step: "connect", Result: Failed}
	timeout, _ := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		f.Detail = where + " refuses connections"
		f.Advice = "nothing listens there: check host and port in " + key + ", and that the other side runs"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		f.Detail = where + " cannot be reached: no route leads there"
		f.Advice = "check the host in " + key + ", and this machine's network and routes"
	case errors.Is(err, context.DeadlineExceeded), timeout != nil && timeout.Timeout():
		f.Detail = where + " does not answer"
		f.Advice = "a firewall may drop what is sent: check host and port in " + key + ", and that this machine may connect there"
	default:
		f.Detail = "no connection to " + where + ": " + lastOf(err).Error()
		f.Advice = "check " + key + ", and this machine's network"
		if e, ok := errors.AsType[advised](err); ok {
			f.Advice = e.Advice()
		}
	}
	return f
}

// lastOf is the cause of a failed dial, without the addresses that are told anyway.
func lastOf(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Err != nil {
		return op.Err
	}
	return err
}

// secured words the handshake, of which there may have been none.
func (w *Path) secured(err error) (found []Finding, explained bool) {
	broken := w.broken
	if broken == nil && err != nil {
		broken = err
	}
	var shown []*x509.Certificate
	if w.state != nil {
		shown = w.state.PeerCertificates
	} else if e, ok := errors.AsType[*tls.CertificateVerificationError](broken); ok {
		shown = e.UnverifiedCertificates
	}
	now := w.Now()
	for _, c := range shown {
		found = append(found, certificate(c, now))
	}
	if detail, advice := handshakeFailure(broken, w.Address, shown, now); detail != "" {
		return append(found, Finding{Step: "tls", Result: Failed, Detail: detail, Advice: advice}), true
	}
	switch {
	case w.state == nil && w.shaking && err != nil:
		return append(found, Finding{
			Step: "tls", Result: Failed, Detail: "the TLS handshake is not answered",
			Advice: "does the other side speak TLS on this port? Check scheme and port in " + w.Key,
		}), true
	case w.state == nil:
		return found, false
	case w.Insecure:
		found = append(found, Finding{
			Step: "tls", Result: Warning, Detail: tls.VersionName(w.state.Version) + ", and any certificate is taken: whoever is on the way can read and change what is sent",
			Advice: "set tls.ca_file to the certificate whose fingerprint you have compared, and take tls.insecure_skip_verify out",
		})
	default:
		found = append(found, Finding{Step: "tls", Result: OK, Detail: fmt.Sprintf("%s, and the certificate is trusted", tls.VersionName(w.state.Version))})
	}
	return found, false
}
