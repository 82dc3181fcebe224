package failure_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/redact"
	"ndrbridge/test/assert"
	"ndrbridge/test/certificate"
	"ndrbridge/test/require"
)

type adviser struct{}

func (adviser) Error() string  { return "not there" }
func (adviser) Advice() string { return "go elsewhere" }

func TestConnectionErrorsAreExplained(t *testing.T) {
	op := func(op string, err error) error { return &net.OpError{Op: op, Net: "tcp", Err: err} }
	for name, test := range map[string]struct {
		err               error
		step, says, cause string
	}{
		"nobody listens":         {op("dial", os.NewSyscallError("connect", syscall.ECONNREFUSED)), "connect", "sensor.example:443 refuses connections; nothing listens there: check host and port in url", "connection refused"},
		"no route to the host":   {op("dial", os.NewSyscallError("connect", syscall.EHOSTUNREACH)), "connect", "no route to it; check the host in url", "no route to host"},
		"no route to anywhere":   {op("dial", os.NewSyscallError("connect", syscall.ENETUNREACH)), "connect", "no route to it; check the host in url", "no route to host"},
		"no answer in time":      {op("dial", os.ErrDeadlineExceeded), "connect", "does not answer; a firewall", "timed out"},
		"who knows what to do":   {op("dial", adviser{}), "connect", "not there; go elsewhere", "no connection"},
		"something else":         {op("dial", errors.New("odd")), "connect", "no connection to sensor.example:443: odd; check url", "no connection"},
		"a name that is unknown": {op("dial", &net.DNSError{Err: "no such host", IsNotFound: true}), "address", "no address is known for the name sensor.example; check the host in url", "host name not found"},
		"a failing name server":  {op("dial", &net.DNSError{Err: "timeout", IsTimeout: true}), "address", "sensor.example cannot be looked up; check this machine's name servers (/etc/resolv.conf)", "name server fails"},
		"a proxy that is down":   {op("proxyconnect", op("dial", os.NewSyscallError("connect", syscall.ECONNREFUSED))), "connect", "the proxy refuses connections; nothing listens there: check host and port in proxy", "connection refused"},
		"an alert":               {op("remote error", tls.AlertError(116)), "tls", "requires a client certificate that it trusts; set tls.cert_file", "TLS handshake failed"},
		"another alert":          {op("remote error", tls.AlertError(70)), "tls", "refuses the TLS handshake: protocol version not supported; check", "TLS handshake failed"},
		"a handshake's own text": {fmt.Errorf("x: %w", errors.New("tls: no supported versions")), "tls", "the TLS handshake fails: no supported versions; see the tls keys", "TLS handshake failed"},
		"a plaintext port":       {tls.RecordHeaderError{}, "tls", "the server does not speak TLS; use the server's port for TLS", "TLS handshake failed"},
		"HTTP in place of TLS":   {tls.RecordHeaderError{RecordHeader: [5]byte([]byte("HTTP/"))}, "tls", "the server speaks HTTP instead of TLS; ", "TLS handshake failed"},
	} {
		t.Run(name, func(t *testing.T) {
			e := failure.Explain(fmt.Errorf("send: %w", test.err), failure.Peer{Address: "sensor.example:443", Key: "url"})
			require.True(t, e != nil, "no explanation")
			assert.Equal(t, e.Step, test.step)
			assert.Contains(t, e.Error(), test.says)
			assert.Equal(t, failure.CauseOf(test.err), test.cause)
			assert.True(t, *failure.Explain(fmt.Errorf("again: %w", e), failure.Peer{}) == *e, "explained twice, it differs")
			class, _ := failure.ClassOf(e.Classified("send"))
			assert.Equal(t, class == failure.Halted, test.step == "tls", "class", class)
		})
	}
	for name, err := range map[string]error{"nothing": nil, "the end of a context": context.DeadlineExceeded, "an unknown error": errors.New("odd")} {
		assert.True(t, failure.Explain(err, failure.Peer{}) == nil, name, "is explained")
	}
}

// TestEveryFaultOfACertificateIsReported makes real handshakes.
func TestEveryFaultOfACertificateIsReported(t *testing.T) {
	later, earlier := time.Now().AddDate(1, 0, 0), time.Now().AddDate(0, 0, -1)
	authority := certificate.New(t, "authority.example", later, nil)
	sound := certificate.New(t, "sensor.example", later, &authority)
	expired := certificate.New(t, "sensor.example", earlier, &authority)
	self := certificate.New(t, "sensor.example", earlier, nil)
	hostile := certificate.New(t, strings.Repeat("x", 60)+"\x1b[2J\n.example", later, nil)
	renewed := certificate.New(t, "sensor.example", later, nil)
	another := certificate.New(t, "other.example", later, nil)
	const (
		untrusted = "was issued by an untrusted authority: CN=authority.example"
		configure = "set tls.ca_file to the certificate of that authority, in PEM; the operator of the server has it"
	)
	for name, test := range map[string]struct {
		server  tls.Certificate
		trusted *tls.Certificate // nil: the authorities of the system
		name    string
		says    []string
		cause   string
	}{
		"an unknown authority":                        {sound, nil, "sensor.example", []string{untrusted + "; " + configure}, "certificate not trusted"},
		"another one in ca_file":                      {sound, &another, "sensor.example", []string{untrusted + ", and tls.ca_file holds only CN=other.example; " + configure}, "certificate not trusted"},
		"the one before in ca_file":                   {renewed, &self, "sensor.example", []string{"self-signed and not trusted, and tls.ca_file holds another certificate of that name, which may have been renewed; compare"}, "certificate not trusted"},
		"an expired one":                              {expired, &authority, "sensor.example", []string{"expired on " + earlier.UTC().Format(time.DateOnly) + "; renew"}, "certificate expired"},
		"an expired one of an unknown authority":      {expired, &another, "sensor.example", []string{"expired on ", ", and the certificate " + untrusted, "renew the certificate", configure}, "certificate expired and certificate not trusted"},
		"another name":                                {sound, &authority, "b.example", []string{"not for b.example, but for sensor.example; set tls.server_name"}, "certificate names another host"},
		"another name, of an unknown authority":       {sound, nil, "b.example", []string{"not for b.example, but for sensor.example, and the certificate " + untrusted, "set tls.server_name", configure}, "certificate names another host and certificate not trusted"},
		"everything at once":                          {self, &another, "b.example", []string{"expired on", "not for b.example", "self-signed and not trusted, and tls.ca_file holds only CN=other.example"}, "certificate expired and certificate names another host and certificate not trusted"},
		"a name with what a terminal would have done": {hostile, nil, "b.example", []string{"not for b.example, but for x"}, "certificate names another host and certificate not trusted"},
	} {
		t.Run(name, func(t *testing.T) {
			config := &tls.Config{ServerName: test.name}
			if test.trusted != nil {
				config.RootCAs = x509.NewCertPool()
				config.RootCAs.AddCert(require.Value(x509.ParseCertificate(test.trusted.Certificate[0]))(t))
			}
			listener := require.Value(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{test.server}}))(t)
			defer listener.Close()
			go func() {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				_ = conn.(*tls.Conn).HandshakeContext(t.Context()) // the client ends it
			}()
			_, err := tls.Dial("tcp", listener.Addr().String(), config)
			e := failure.Explain(err, failure.Peer{Address: "10.0.0.1:443", Key: "url", TLS: config})
			require.True(t, e != nil, "no explanation of", err)
			for _, text := range test.says {
				assert.Contains(t, e.Error(), text)
			}
			assert.Equal(t, failure.CauseOf(e.Classified("POST")), test.cause)
			assert.True(t, !strings.ContainsAny(e.Error(), "\x1b\n") && len(e.Error()) < 1000, "not bounded and printable:", e)
		})
	}
}

func TestOnlyTextsOfOthersAreRedacted(t *testing.T) {
	hide := func(secret string) func(string) string { return redact.New(secret).Hide }
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for _, test := range []struct {
		name, secret string
		err          error
		want         string
	}{
		{"a secret that is one of our words garbles nothing", "refuses", dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), "sensor.example:443 refuses connections; nothing listens there: check host and port in url, and that the server is running"},
		{"nor does one in an advice", "check", &net.DNSError{Name: "sensor.example", IsNotFound: true}, "no address is known for the name sensor.example; check the host in url, and the name servers of this machine"},
		{"a text of the network is redacted", "hunter22", dial(errors.New("socks: user hunter22 is refused")), "no connection to sensor.example:443: socks: user [redacted] is refused; check url, and this machine's network"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := failure.Explain(test.err, failure.Peer{Address: "sensor.example:443", Key: "url", Hide: hide(test.secret)})
			require.True(t, e != nil, "no explanation")
			assert.Equal(t, e.Error(), test.want)
		})
	}
}
