package webhook_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/render"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

// Secrets of two receivers, or of one before and after a change.
const (
	oldSecret = "whsec_b2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xk"
	newSecret = "whsec_bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3"
)

// verifier is a receiver that accepts requests signed with its secret.
type verifier struct {
	url string

	mu      sync.Mutex
	failing int      // requests that are yet to be answered with 503
	ids     []string // of all requests
	taken   int
	wrong   error
}

func startVerifier(t *testing.T, secret string) *verifier {
	check := require.Value(standardwebhooks.NewWebhook(secret))(t)
	v := new(verifier)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		v.ids = append(v.ids, r.Header.Get(standardwebhooks.HeaderWebhookID))
		if v.failing > 0 {
			v.failing--
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if err := check.Verify(body, r.Header); err != nil {
			v.wrong = err
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		v.taken++
	}))
	t.Cleanup(server.Close)
	v.url = server.URL
	return v
}

func template(t *testing.T, text string, asJSON bool) *render.Template {
	t.Helper()
	compiled := require.Value(render.Compile(text, asJSON))(t)
	return compiled
}

func TestAReceiverThatKnowsOneOfTheSecretsAccepts(t *testing.T) {
	for _, test := range []struct {
		name     string
		options  webhook.Options
		requests int
	}{
		{"structured mode", webhook.Options{}, 9},
		{"structured mode, several at a time", webhook.Options{Concurrency: 4}, 9},
		{"batch mode", webhook.Options{Mode: transform.Batch}, 1},
		{"a template", webhook.Options{Template: template(t, `{"id": {{json .event.id}}}`, true)}, 9},
	} {
		for _, secret := range []string{oldSecret, newSecret} {
			t.Run(test.name, func(t *testing.T) {
				v := startVerifier(t, secret)
				o := test.options
				o.URL, o.SignSecrets = v.url, []string{oldSecret, newSecret + "\n"}
				err := open(t, o).Send(t.Context(), sinktest.Awkward())
				assert.True(t, err == nil && v.taken == test.requests && v.wrong == nil, v.taken, "requests taken, want", test.requests, err, v.wrong)
			})
		}
	}
	t.Run("one that knows none of them halts the sink", func(t *testing.T) {
		v := startVerifier(t, newSecret)
		err := open(t, webhook.Options{URL: v.url, SignSecrets: []string{oldSecret}, Mode: transform.Batch}).Send(t.Context(), sinktest.Events(1, 1, 0))
		if sinktest.ExpectFailure(t, err, failure.Halted); v.wrong == nil {
			t.Error("it took the signature")
		}
	})
}

func TestTheIDOfAMessageIsThatOfItsEvents(t *testing.T) {
	events := sinktest.Events(3, 3, 0)
	again := []transform.Event{events[0].Redeliver(1)}
	twice := []transform.Event{events[0].Redeliver(2)}
	source := sinktest.Awkward()[5:7] // two events of one id, from two sources
	for _, mode := range []transform.Mode{transform.Structured, transform.Batch} {
		t.Run(string(mode), func(t *testing.T) {
			v := startVerifier(t, oldSecret)
			o := webhook.Options{URL: v.url, SignSecrets: []string{oldSecret}, Mode: mode}
			send := func(events []transform.Event) string {
				v.failing = 2
				for {
					// After a restart it is the same, too.
					err := open(t, o).Send(t.Context(), events)
					if err == nil {
						break
					}
					require.NoError(t, v.wrong)
				}
				first := v.ids[0]
				for _, id := range v.ids {
					assert.Equal(t, id, first, "the ids of three attempts", v.ids)
				}
				assert.True(t, len(v.ids) == 3 && strings.HasPrefix(first, "msg_") && !strings.Contains(first, "."), "ids", v.ids)
				v.ids = nil
				return first
			}
			seen := make(map[string]bool)
			for _, events := range [][]transform.Event{events[:1], events[1:2], again, twice, source[:1], source[1:]} {
				id := send(events)
				assert.False(t, seen[id], id, "is the id of two messages")
				seen[id] = true
			}
			if mode == transform.Batch {
				whole := send(events)
				assert.True(t, !seen[whole] && whole != send(events[:2]), "batches of other events have one id")
			}
		})
	}
}
