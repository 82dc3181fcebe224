package finding

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

type adviser struct{}

func (adviser) Error() string  { return "not there" }
func (adviser) Advice() string { return "go elsewhere" }

func TestDialErrorsAreExplained(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for name, test := range map[string]struct {
		err            error
		detail, advice string
	}{
		"nobody listens":          {dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), "refuses connections", "port in url"},
		"no route to the host":    {dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), "no route", "network and routes"},
		"no route to anywhere":    {dial(os.NewSyscallError("connect", syscall.ENETUNREACH)), "no route", "network and routes"},
		"no answer in time":       {dial(os.ErrDeadlineExceeded), "does not answer", "firewall"},
		"the caller's time is up": {fmt.Errorf("get: %w", context.DeadlineExceeded), "does not answer", "firewall"},
		"who knows what to do":    {dial(adviser{}), "not there", "go elsewhere"},
		"something else":          {dial(errors.New("odd")), "no connection to sensor.example:443: odd", "check url"},
	} {
		t.Run(name, func(t *testing.T) {
			f := unconnected("sensor.example:443", "url", test.err)
			assert.True(t, f.Result == Failed && strings.Contains(f.Detail, test.detail) && strings.Contains(f.Advice, test.advice), f)
		})
	}
}

func TestAnUnknownNameDiffersFromAFailingNameServer(t *testing.T) {
	unknown := unresolved("sensor.example", "url", &net.DNSError{Err: "no such host", IsNotFound: true})
	down := unresolved("sensor.example", "url", &net.DNSError{Err: "timeout", IsTimeout: true})
	assert.Contains(t, unknown.Advice, "the host in url", unknown, down)
	assert.Contains(t, down.Advice, "resolv.conf", unknown, down)
}

func TestAPathReportsOnlyItsOwnAddress(t *testing.T) {
	one, other := httptest.NewTLSServer(http.NotFoundHandler()), httptest.NewServer(http.NotFoundHandler())
	defer one.Close()
	defer other.Close()
	address := func(s *httptest.Server) string { return s.Listener.Addr().String() }
	first, second := &Path{Address: address(one), Key: "url", Now: time.Now}, &Path{Address: address(other), Key: "url", Now: time.Now}
	ctx := second.Watch(first.Watch(t.Context()))
	for _, s := range []*httptest.Server{one, other} {
		r := require.Value(http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil))(t)
		answer := require.Value(one.Client().Do(r))(t)
		answer.Body.Close()
	}
	for w, want := range map[*Path]string{first: "certificate tls", second: ""} {
		found, explained := w.Findings(nil)
		var steps []string
		for _, f := range found[1:] {
			steps = append(steps, f.Step)
		}
		assert.True(t, !explained && found[0].Detail == "connected to "+w.Address && strings.Join(steps, " ") == want, found)
	}
}

func TestSecureCopiesTheConfiguration(t *testing.T) {
	w, config := &Path{Now: time.Now}, &tls.Config{ServerName: "sensor.example"}
	secured := w.Secure(config)
	assert.True(t, secured != config && secured.ServerName == config.ServerName && config.VerifyConnection == nil, "it is not a copy")
	assert.True(t, w.Secure(nil) == nil, "Secure made a configuration of nil")
}

func TestHostPort(t *testing.T) {
	for text, want := range map[string]string{
		"https://a.example": "a.example:443", "http://a.example/x": "a.example:80", "socks5://a.example": "a.example:1080",
		"https://a.example:8443": "a.example:8443", "https://[::1]": "[::1]:443",
	} {
		u := require.Value(url.Parse(text))(t)
		assert.Equal(t, HostPort(u), want, text)
	}
}

func TestFailureSeparatesTheAdvice(t *testing.T) {
	f := Failure("x", fmt.Errorf("there: %w", adviser{}))
	assert.True(t, f.Detail == "there: not there" && f.Advice == "go elsewhere", f)
	f = Failure("x", errors.New("odd"))
	assert.True(t, f.Detail == "odd" && f.Advice == "", f)
}
