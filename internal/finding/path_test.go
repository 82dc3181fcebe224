package finding

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"ndrbridge/internal/failure"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

type adviser struct{}

func (adviser) Error() string  { return "not there" }
func (adviser) Advice() string { return "go elsewhere" }

func TestAPathReportsOnlyItsOwnAddress(t *testing.T) {
	one, other := httptest.NewTLSServer(http.NotFoundHandler()), httptest.NewServer(http.NotFoundHandler())
	defer one.Close()
	defer other.Close()
	address := func(s *httptest.Server) string { return s.Listener.Addr().String() }
	first, second := &Path{Peer: failure.Peer{Address: address(one), Key: "url"}}, &Path{Peer: failure.Peer{Address: address(other), Key: "url"}}
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
	w, config := new(Path), &tls.Config{ServerName: "sensor.example"}
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
