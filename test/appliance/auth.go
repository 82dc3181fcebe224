package appliance

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"ndrbridge/test/appliance/access"
	"ndrbridge/test/appliance/rest"
)

// OAuth is a client of the cloud edition's token endpoint, POST /oauth2/token.
type OAuth struct {
	ClientID, ClientSecret string
	// Lifetime is the time for which a token is valid, in true time; 0: 10 minutes.
	Lifetime time.Duration
}

// newControl returns the users that the appliance starts with: one, with every privilege.
func (a *Appliance) newControl() *access.Control {
	return access.New(access.Options{
		Description: a.description, Rand: chance(a.options.Seed, chanceKeys),
		Host: func() string { return a.identity.Load().Host },
		User: a.options.User, Key: a.options.APIKey,
	})
}

const tokenPath = "/oauth2/token"

// tokens are the issued access tokens.
type tokens struct {
	mu     sync.Mutex
	rand   *rand.Rand
	ends   map[string]time.Time
	issued []string // those in ends, the oldest first
}

// maxTokens is the number of tokens that are valid at a time. The oldest is dropped for another.
const maxTokens = 1000

// authenticate returns the user on whose behalf a request is made, and whether its credential
// is valid.
func (a *Appliance) authenticate(r *http.Request) (rest.Caller, bool) {
	header := r.Header.Get("Authorization")
	if key, ok := strings.CutPrefix(header, a.options.Product+" apikey="); ok {
		return a.control.Authenticate(key)
	}
	token, ok := strings.CutPrefix(header, "Bearer ")
	if !ok || !a.tokens.accept(token, a.options.Now()) {
		return rest.Caller{}, false
	}
	return a.control.Caller(a.options.User)
}

// issueToken serves the token endpoint, which is not part of the interface's description.
func (a *Appliance) issueToken(r *http.Request) rest.Answer {
	if r.Method != http.MethodPost {
		refused := rest.Refuse(http.StatusMethodNotAllowed, "the method %s is not allowed", r.Method)
		refused.Header = http.Header{"Allow": {http.MethodPost}}
		return refused
	}
	const form = "application/x-www-form-urlencoded"
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != form {
		return rest.Refuse(http.StatusUnsupportedMediaType, "the body must be %s", form)
	}
	oauth := a.options.OAuth
	id, secret, ok := r.BasicAuth()
	if !ok || id != oauth.ClientID || secret != oauth.ClientSecret {
		return rest.JSON(http.StatusBadRequest, map[string]string{"error": "invalid_client"})
	}
	if r.PostFormValue("grant_type") != "client_credentials" {
		return rest.JSON(http.StatusBadRequest, map[string]string{"error": "unsupported_grant_type"})
	}
	a.logAPI(a.options.User, rest.Audit{Operation: "Login", Component: "REST API", Details: "Issued an access token"})
	lifetime := cmp.Or(oauth.Lifetime, 10*time.Minute)
	return rest.JSON(http.StatusOK, map[string]any{
		"access_token": a.tokens.issue(a.options.Now(), lifetime),
		"expires_in":   int64(lifetime / time.Second),
		"token_type":   "Bearer",
	})
}

// accept reports whether a token is valid.
func (t *tokens) accept(token string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	end, ok := t.ends[token]
	return ok && now.Before(end)
}

func (t *tokens) issue(now time.Time, lifetime time.Duration) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.issued) > 0 && (len(t.issued) >= maxTokens || !now.Before(t.ends[t.issued[0]])) {
		delete(t.ends, t.issued[0])
		t.issued = t.issued[1:]
	}
	if t.ends == nil {
		t.ends = make(map[string]time.Time)
	}
	token := fmt.Sprintf("%016x%016x", t.rand.Uint64(), t.rand.Uint64())
	t.ends[token] = now.Add(lifetime)
	t.issued = append(t.issued, token)
	return token
}
