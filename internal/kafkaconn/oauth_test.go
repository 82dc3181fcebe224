package kafkaconn_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/kafkaconn"
	"ndrbridge/internal/oauthtoken"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

const clientSecret = "correct-horse"

// What an endpoint does besides answering with a status.
const (
	cutOff      = -iota - 1 // its answer ends too early
	noToken                 // its answer is a page
	longRefusal             // it repeats the secret where the text is cut
	untrusted               // its certificate is self-signed
)

// authority issues tokens, each with its number, and a broker that accepts the last one.
type authority struct {
	issued, signIns atomic.Int64
	lifetime        time.Duration // of tokens
	refuses         atomic.Bool   // the broker refuses the next token, and repeats it
	status          int           // of the endpoint
}

// start returns a client of the broker, which authenticates with tokens.
func (a *authority) start(t *testing.T) *kafkaconn.Client {
	t.Helper()
	serve := httptest.NewServer
	if a.status == untrusted {
		serve = httptest.NewTLSServer
	}
	endpoint := serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, secret, header := r.BasicAuth()
		if !header { // tried after a refusal
			id, secret = r.FormValue("client_id"), r.FormValue("client_secret")
		}
		if id != "ndr" || secret != clientSecret || r.FormValue("scope") != "kafka write" || r.FormValue("audience") != "brokers" {
			t.Errorf("%s asks for the scope %q and the audience %q", id, r.FormValue("scope"), r.FormValue("audience"))
		}
		switch a.status {
		case cutOff:
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, `{"access_token": `)
			return
		case noToken:
			fmt.Fprint(w, "<html>")
			return
		case longRefusal:
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, strings.Repeat("x", 420), strings.Repeat(" "+clientSecret, 20))
			return
		}
		if a.status != http.StatusOK {
			w.WriteHeader(a.status)
			fmt.Fprintf(w, `{"error": "invalid_client", "error_description": "not %s"}`, clientSecret)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token": "token-%d", "token_type": "bearer", "expires_in": %d}`, a.issued.Add(1), int(a.lifetime.Seconds()))
	}))
	t.Cleanup(endpoint.Close)
	return signingIn(t, kafkaconn.SASL{Mechanism: "oauthbearer", OAuth: &oauthtoken.Grant{
		TokenURL: endpoint.URL + "/token", ClientID: "ndr", ClientSecret: clientSecret, Scope: "kafka write", Audience: "brokers",
	}}, "OAUTHBEARER", func(sent []byte, answer *kmsg.SASLAuthenticateResponse) {
		message, want := string(sent), fmt.Sprintf("n,,\x01auth=Bearer token-%d\x01\x01", a.issued.Load())
		switch {
		case a.refuses.CompareAndSwap(true, false):
			answer.SASLAuthBytes = []byte(`{"status": "invalid_token", "was": "` + strings.Trim(message, "\x01") + `"}`)
		case message != want:
			answer.ErrorCode = 58
		default:
			a.signIns.Add(1)
		}
	})
}

func connect(t *testing.T, l *kafkaconn.Client) error {
	t.Helper()
	_, err := l.Connect(t.Context(), t.Context(), "x")
	if err != nil {
		err = l.Dialer.Error(t.Context(), err, "ask")
	}
	assert.True(t, err == nil || !strings.Contains(err.Error(), clientSecret[:4]) && !strings.Contains(err.Error(), "token-"), "a secret shows", err)
	return err
}

func TestTokensAuthenticateConnections(t *testing.T) {
	for name, test := range map[string]struct {
		lifetime        time.Duration
		reconnect       bool
		issued, signIns int64
	}{
		"one connection, one token":                          {time.Hour, false, 1, 1},
		"a new connection uses the token":                    {time.Hour, true, 1, 3},
		"a new connection does not use a token that expires": {time.Second, true, 3, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &authority{lifetime: test.lifetime, status: http.StatusOK}
			l := a.start(t)
			for i := range 3 {
				if i > 0 && test.lifetime == time.Second {
					time.Sleep(time.Second)
				} else if i > 0 {
					time.Sleep(20 * time.Millisecond)
				}
				if i > 0 && !test.reconnect {
					require.Value(l.Metadata(t.Context(), &kafka.MetadataRequest{Topics: []string{"x"}}))(t)
				} else if err := connect(t, l); err != nil {
					t.Fatal(err)
				}
			}
			assert.Equal(t, a.issued.Load(), test.issued, "tokens")
			assert.Equal(t, a.signIns.Load(), test.signIns, "connections")
		})
	}
}

func TestATokenThatIsRefusedIsReplaced(t *testing.T) {
	a := &authority{lifetime: time.Hour, status: http.StatusOK}
	a.refuses.Store(true)
	l := a.start(t)
	err := connect(t, l)
	class, _ := failure.ClassOf(err)
	assert.True(t, class == failure.Halted && strings.Contains(err.Error(), "invalid_token"), "class", class, err)
	err = connect(t, l)
	assert.True(t, err == nil && a.issued.Load() == 2, a.issued.Load(), "tokens", err)
}

func TestFailuresOfTheTokenEndpoint(t *testing.T) {
	for status, want := range map[int]failure.Class{
		http.StatusUnauthorized: failure.Halted, http.StatusBadRequest: failure.Halted, http.StatusFound: failure.Halted,
		http.StatusServiceUnavailable: failure.Transient, http.StatusTooManyRequests: failure.Transient, http.StatusRequestTimeout: failure.Transient,
		cutOff: failure.Transient, noToken: failure.Halted, longRefusal: failure.Halted, untrusted: failure.Halted,
	} {
		a := &authority{status: status}
		err := connect(t, a.start(t))
		class, _ := failure.ClassOf(err)
		assert.True(t, err != nil && class == want && failure.ScopeOf(err) == failure.ScopeTarget && strings.Contains(err.Error(), "token endpoint"), status, class, err)
	}
}
