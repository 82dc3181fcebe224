package admin_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"ndrbridge/internal/admin"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestGuessesAreSlowedDownCountedAndLogged(t *testing.T) {
	for _, entrance := range []struct {
		name, secret string
		ask          func(guess string) *http.Request
		right        string
	}{
		{"the token", "token", func(guess string) *http.Request {
			r := httptest.NewRequest(http.MethodGet, "/api/v1/status", nil)
			r.Header.Set("Authorization", "Bearer "+guess)
			return r
		}, token},
		{"a webhook's secret", "jira", func(guess string) *http.Request {
			r := httptest.NewRequest(http.MethodPost, "/api/v1/tickets/jira", strings.NewReader("{}"))
			r.Header.Set("X-Hub-Signature", guess)
			return r
		}, signature("{}")},
	} {
		t.Run(entrance.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				metrics := prometheus.NewRegistry()
				o := withIntakes(t, newControl(t), readSecret)
				o.Guesses = admin.NewGuesses(metrics, slog.New(slog.NewTextHandler(&log, nil)))
				handler := admin.NewHandler(o)
				status := func(address, guess string) int {
					r, answer := entrance.ask(guess), httptest.NewRecorder()
					r.RemoteAddr = address
					handler.ServeHTTP(answer, r)
					assert.True(t, answer.Code != http.StatusTooManyRequests || answer.Header().Get("Retry-After") != "", "no Retry-After")
					return answer.Code
				}
				const guesses, most, attacker = 1500, 100, "[2001:db8::1]:1"
				count := map[int]int{}
				for n := range guesses {
					// A host has more than one address of IPv6.
					count[status(fmt.Sprintf("[2001:db8::%x]:1", n+1), fmt.Sprintf("sha256=%064d", n))]++
				}
				assert.True(t, count[http.StatusUnauthorized] == most && count[http.StatusTooManyRequests] == guesses-most, count, most, "examined")
				assert.Equal(t, status(attacker, entrance.right), http.StatusTooManyRequests, "the right one after too many others", "so that the guess is confirmed")
				for _, other := range []string{"[2001:db8:0:1::1]:1", "192.0.2.1:1"} {
					got := status(other, entrance.right)
					assert.True(t, got != http.StatusUnauthorized && got != http.StatusTooManyRequests, "the right one of", other, got)
				}
				time.Sleep(2 * time.Minute)
				got := status(attacker, entrance.right)
				assert.True(t, got != http.StatusUnauthorized && got != http.StatusTooManyRequests, "the right one after a minute", got)
				status(attacker, "wrong") // logs those since the first
				want := fmt.Sprintf(`
# HELP ndrbridge_admin_refused_credentials_total Requests to the admin interface with wrong credentials, by result: wrong, or throttled (not examined, because the address had sent too many).
# TYPE ndrbridge_admin_refused_credentials_total counter
ndrbridge_admin_refused_credentials_total{result="throttled"} %d
ndrbridge_admin_refused_credentials_total{result="wrong"} %d
`, guesses-most+1, most+1)
				require.NoError(t, testutil.GatherAndCompare(metrics, strings.NewReader(want)))
				lines := strings.Split(strings.TrimSpace(log.String()), "\n")
				assert.True(t, len(lines) == 2 && strings.Contains(lines[1], fmt.Sprintf("secret=%s address=%s requests=%d", entrance.secret, attacker, guesses+1)), &log)
			})
		})
	}
}
