package appliance

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// OAuth is a client of the cloud edition's token endpoint, POST /oauth2/token.
type OAuth struct {
	ClientID, ClientSecret string
	// Lifetime is the time for which a token is valid, in true time; 0: 10 minutes.
	Lifetime time.Duration
}

const tokenPath = "/oauth2/token"

// tokens are the issued access tokens.
type tokens struct {
	mu   sync.Mutex
	rand *rand.Rand
	ends map[string]time.Time
}

// authorized reports whether the credential of a request is valid.
func (a *Appliance) authorized(r *http.Request) bool {
	header := r.Header.Get("Authorization")
	if key, ok := strings.CutPrefix(header, a.options.Product+" apikey="); ok {
		return a.options.APIKey != "" && key == a.options.APIKey
	}
	token, ok := strings.CutPrefix(header, "Bearer ")
	if !ok {
		return false
	}
	a.tokens.mu.Lock()
	defer a.tokens.mu.Unlock()
	end, ok := a.tokens.ends[token]
	return ok && a.options.Now().Before(end)
}

func (a *Appliance) findToken(r *http.Request) match {
	found := match{name: http.MethodPost + " " + tokenPath, open: true}
	if r.Method != http.MethodPost {
		found.refused = refusal(http.StatusMethodNotAllowed, "the method %s is not allowed", r.Method)
		found.refused.header = http.Header{"Allow": {http.MethodPost}}
		return found
	}
	found.route = route{http.MethodPost, tokenPath, a.issueToken, "application/x-www-form-urlencoded"}
	return found
}

func (a *Appliance) issueToken(r *request) answer {
	oauth := a.options.OAuth
	id, secret, ok := r.BasicAuth()
	if !ok || id != oauth.ClientID || secret != oauth.ClientSecret {
		return jsonAnswer(http.StatusBadRequest, map[string]string{"error": "invalid_client"})
	}
	if r.PostFormValue("grant_type") != "client_credentials" {
		return jsonAnswer(http.StatusBadRequest, map[string]string{"error": "unsupported_grant_type"})
	}
	a.logAPI("Login", "Issued an access token")
	lifetime := cmp.Or(oauth.Lifetime, 10*time.Minute)
	return jsonAnswer(http.StatusOK, map[string]any{
		"access_token": a.tokens.issue(a.options.Now(), lifetime),
		"expires_in":   int64(lifetime / time.Second),
		"token_type":   "Bearer",
	})
}

func (t *tokens) issue(now time.Time, lifetime time.Duration) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for token, end := range t.ends {
		if !now.Before(end) {
			delete(t.ends, token)
		}
	}
	if t.ends == nil {
		t.ends = make(map[string]time.Time)
	}
	token := fmt.Sprintf("%016x%016x", t.rand.Uint64(), t.rand.Uint64())
	t.ends[token] = now.Add(lifetime)
	return token
}
