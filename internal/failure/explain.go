package failure

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
	"unicode"
)

// Peer is the other end of a connection.
type Peer struct {
	// Address is its host and port.
	Address string
	// Proxy is the host and port that is dialled instead; empty if there is none.
	Proxy string
	// Key is the configuration key that holds the address, such as url.
	Key string
	// TLS is the configuration of the connection. If it is nil, only the first fault of a
	// certificate is reported.
	TLS *tls.Config
	// Now returns the time that certificates are checked against; nil means time.Now.
	Now func() time.Time
	// Hide removes secrets from texts of the peer and of the network. It may be nil.
	Hide func(string) string
}

// hidden returns a text of the peer or of the network without secrets. The bridge's own words are
// not changed: a secret that is a common word would garble them.
func (p Peer) hidden(text string) string {
	if p.Hide == nil {
		return text
	}
	return p.Hide(text)
}

// Time returns the time that certificates are checked against.
func (p Peer) Time() time.Time {
	if p.Now == nil {
		return time.Now()
	}
	return p.Now()
}

// The steps of a connection that an Explained error names.
const (
	StepAddress = "address"
	StepConnect = "connect"
	StepTLS     = "tls"
)

// Explained is the error of a connection in words for people, the same in a check, a status and
// a log. It contains no secret and a bounded part of the peer's certificates.
type Explained struct {
	// Step is the step that failed: StepAddress, StepConnect or StepTLS.
	Step string
	// Detail says what failed, and To what to do.
	Detail, To string
	// Cause is what CauseOf returns.
	Cause string
	// Err is the error that is explained.
	Err error
}

// Error returns the detail, a semicolon and the advice.
func (e *Explained) Error() string { return e.Detail + "; " + e.To }

// Advice returns e.To.
func (e *Explained) Advice() string { return e.To }

// Unwrap returns e.Err.
func (e *Explained) Unwrap() error { return e.Err }

// Explain explains an error of a connection to p: of looking up its name, of dialling or of the
// TLS handshake. It returns nil for any other error. An error that is explained already keeps its
// explanation.
func Explain(err error, p Peer) *Explained {
	if err == nil {
		return nil
	}
	where, key := p.Address, p.Key
	if p.Proxy != "" || isOfProxy(err) {
		where, key = cmp.Or(p.Proxy, "the proxy"), "proxy"
	}
	e := &Explained{Err: err}
	if known, ok := errors.AsType[*Explained](err); ok {
		return known
	} else if lookup, ok := errors.AsType[*net.DNSError](err); ok {
		e.unresolved(where, key, lookup, p)
	} else if faults := handshakeFaults(err, p); len(faults) > 0 {
		e.Step, e.Cause = StepTLS, faults.join(" and ", func(f fault) string { return f.cause })
		e.Detail = faults.join(", and ", func(f fault) string { return f.detail })
		e.To = faults.join("; ", func(f fault) string { return f.advice })
	} else if dialled := dialError(err); dialled != nil {
		e.unconnected(where, key, dialled, p)
	} else {
		return nil
	}
	return e
}

// isOfProxy reports whether err is of the connection to an HTTP proxy.
func isOfProxy(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "proxyconnect"
}

// Classified returns e as the error of a delivery: Halted if the handshake failed, else Transient.
// tried names the attempt.
func (e *Explained) Classified(tried string) *Error {
	class := Transient
	if e.Step == StepTLS {
		class = Halted
	}
	return &Error{Class: class, Scope: ScopeTarget, Cause: e.Cause, Err: fmt.Errorf("%s: %w", tried, e)}
}

// HandshakeFailed reports whether err follows from a TLS handshake that failed because of the
// configuration of either side, which halts a sink.
func HandshakeFailed(err error) bool {
	e := Explain(err, Peer{})
	return e != nil && e.Step == StepTLS
}

// unresolved explains the failed lookup of a host's name.
func (e *Explained) unresolved(where, key string, err *net.DNSError, p Peer) {
	host, _, _ := net.SplitHostPort(where)
	host = cmp.Or(host, p.hidden(err.Name))
	e.Step, e.Cause = StepAddress, "name server fails"
	e.Detail, e.To = host+" cannot be looked up", "check this machine's name servers (/etc/resolv.conf), and that they answer"
	if err.IsNotFound {
		e.Cause = "host name not found"
		e.Detail, e.To = "no address is known for the name "+host, "check the host in "+key+", and the name servers of this machine"
	}
}

// dialError returns the cause of a failed dial without the addresses, or nil.
func dialError(err error) error {
	for {
		op, ok := errors.AsType[*net.OpError](err)
		switch {
		case !ok || op.Err == nil:
			return nil
		case op.Op == "dial":
			return op.Err
		}
		err = op.Err // proxyconnect
	}
}

// unconnected explains a failed dial.
func (e *Explained) unconnected(where, key string, err error, p Peer) {
	e.Step, e.Cause = StepConnect, cmp.Or(causeOfNetwork(err), "no connection")
	timeout, _ := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Detail = where + " refuses connections"
		e.To = "nothing listens there: check host and port in " + key + ", and that the server is running"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		e.Detail = where + " cannot be reached: there is no route to it"
		e.To = "check the host in " + key + ", and this machine's network and routes"
	case errors.Is(err, context.DeadlineExceeded), timeout != nil && timeout.Timeout():
		e.Detail = where + " does not answer"
		e.To = "a firewall may drop the packets: check host and port in " + key + ", and that this machine may connect there"
	default:
		e.Detail = "no connection to " + where + ": " + p.hidden(err.Error())
		e.To = "check " + key + ", and this machine's network"
		if known, ok := errors.AsType[interface {
			error
			Advice() string
		}](err); ok {
			e.To = known.Advice()
		}
	}
}

// fault is one reason why a handshake fails.
type fault struct{ cause, detail, advice string }

type faults []fault

func (all faults) join(separator string, part func(fault) string) string {
	var parts []string
	for _, f := range all {
		parts = append(parts, part(f))
	}
	return strings.Join(parts, separator)
}

// handshakeFaults returns the faults of a failed handshake; none if err is not of one.
func handshakeFaults(err error, p Peer) faults {
	if found := certificateFaults(err, p); len(found) > 0 {
		return found
	}
	one := func(detail, advice string) faults { return faults{{"TLS handshake failed", detail, advice}} }
	header, ok := errors.AsType[tls.RecordHeaderError](err)
	if errors.Is(err, http.ErrSchemeMismatch) || string(header.RecordHeader[:]) == "HTTP/" {
		return one("the server speaks HTTP instead of TLS", "use the server's port for TLS; for a connection in plain text, change the scheme of the URL to http, or remove tls")
	}
	if ok {
		return one("the server does not speak TLS", "use the server's port for TLS; for a connection in plain text, change the scheme of the URL, or remove tls")
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
		switch alert := strings.TrimPrefix(op.Err.Error(), "tls: "); alert {
		case "certificate required", "bad certificate", "unknown certificate", "unknown certificate authority":
			return one("the server requires a client certificate that it trusts", "set tls.cert_file and tls.key_file")
		default:
			return one("the server refuses the TLS handshake: "+p.hidden(alert), "check whether it requires a client certificate (tls.cert_file) or an older version of TLS")
		}
	}
	// The other errors of a handshake have no types, only texts.
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		text := inner.Error()
		if text == "http2: client conn could not be established" {
			return one("the server closed the connection right after the TLS handshake", "check whether it requires a client certificate (tls.cert_file)")
		}
		if reason, ok := strings.CutPrefix(text, "tls: "); ok {
			return one("the TLS handshake fails: "+p.hidden(reason), "see the tls keys")
		}
	}
	return nil
}

// maxQuoted limits a text of a certificate, in bytes.
const maxQuoted = 200

// quoted returns the beginning of a text of a certificate as one line of printable characters.
func quoted(text string) string {
	if len(text) > maxQuoted {
		text = text[:maxQuoted] + "…"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, text)
}
