package presettest

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
)

// The client that a TokenServer knows by default. The secret has characters that each style encodes
// in another way.
const (
	ClientID     = "client:1"
	ClientSecret = "s3cret+/:~ 8Q"
)

// TokenServer is a token endpoint (RFC 6749, section 4.4) that is as strict as the
// specification permits. Its fields must be set before the first request.
type TokenServer struct {
	URL string
	// ID and Secret are those of the only client; empty means ClientID and ClientSecret.
	ID, Secret string
	// Style is header or params: the style that it accepts. Empty means either, but not
	// both at once.
	Style string
	// Scope and Audience are the only ones that it issues tokens for.
	Scope, Audience string
	// ExpiresIn is the lifetime of its tokens in seconds; 0 means that it reports none.
	ExpiresIn int

	mu      sync.Mutex
	issued  []string
	refused int
}

// NewTokenServer returns a TokenServer on loopback.
func NewTokenServer(t testing.TB) *TokenServer {
	s := &TokenServer{ExpiresIn: 3599}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL + "/oauth2/v2.0/token"
	return s
}

// ServeHTTP implements http.Handler.
func (s *TokenServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	code, description := s.judge(r)
	if code != "" {
		s.refused++
		status := http.StatusBadRequest
		if code == "invalid_client" {
			status = http.StatusUnauthorized
			w.Header().Set("WWW-Authenticate", "Basic")
		}
		JSON(w, status, fmt.Sprintf(`{"error":%q,"error_description":%q}`, code, description))
		return
	}
	token := fmt.Sprintf("issued-t0ken-%d", len(s.issued)+1)
	s.issued = append(s.issued, token)
	expires := ""
	if s.ExpiresIn != 0 {
		expires = fmt.Sprintf(`,"expires_in":%d`, s.ExpiresIn)
	}
	JSON(w, http.StatusOK, fmt.Sprintf(`{"token_type":"Bearer","access_token":%q%s}`, token, expires))
}

// judge returns the error code for a request (RFC 6749, section 5.2), or "".
func (s *TokenServer) judge(r *http.Request) (code, description string) {
	body, err := Body(r)
	if err != nil {
		return "invalid_request", err.Error()
	}
	form, err := url.ParseQuery(string(body))
	if err != nil || r.Method != http.MethodPost || r.URL.Path != "/oauth2/v2.0/token" || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
		return "invalid_request", "this is not a token request"
	}
	for name, values := range form {
		if len(values) != 1 || !slices.Contains([]string{"grant_type", "client_id", "client_secret", "scope", "audience"}, name) {
			return "invalid_request", "the parameter " + name
		}
	}
	id, secret, inHeader := r.BasicAuth()
	id, idErr := url.QueryUnescape(id)
	secret, secretErr := url.QueryUnescape(secret)
	inParams := form.Has("client_id") || form.Has("client_secret")
	switch {
	case inHeader && inParams:
		return "invalid_request", "more than one way to identify the client"
	case inParams:
		id, secret = form.Get("client_id"), form.Get("client_secret")
	}
	switch {
	case s.Style == "header" && !inHeader, s.Style == "params" && !inParams:
		return "invalid_client", "the client must identify itself by " + s.Style
	case idErr != nil || secretErr != nil || id != cmp.Or(s.ID, ClientID) || secret != cmp.Or(s.Secret, ClientSecret):
		return "invalid_client", "no such client"
	case form.Get("grant_type") != "client_credentials":
		return "unsupported_grant_type", form.Get("grant_type")
	case form.Get("scope") != s.Scope:
		return "invalid_scope", form.Get("scope")
	case form.Get("audience") != s.Audience:
		return "invalid_request", "the audience " + form.Get("audience")
	}
	return "", ""
}

// Valid reports whether an Authorization header carries the newest token.
func (s *TokenServer) Valid(authorization string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.issued) > 0 && authorization == "Bearer "+s.issued[len(s.issued)-1]
}

// Counts returns how many tokens were issued, and how many requests were refused.
func (s *TokenServer) Counts() (issued, refused int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.issued), s.refused
}
