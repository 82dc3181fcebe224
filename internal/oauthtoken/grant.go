package oauthtoken

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"ndrbridge/internal/redact"
)

// Grant is what tokens are requested with.
type Grant struct {
	// TokenURL is the http or https URL of the token endpoint.
	TokenURL string
	// ClientID and ClientSecret must not be empty.
	ClientID, ClientSecret string
	// Scope is the scope to ask for: words separated by blanks; empty means the default of
	// the server.
	Scope string
	// Audience is the parameter audience, which some servers require; empty means none.
	Audience string
	// Style is how the client identifies itself. Zero means by the Basic scheme, and by
	// parameters in the body if that is refused.
	Style oauth2.AuthStyle
}

// Endpoint returns TokenURL parsed, or an empty URL.
func (g *Grant) Endpoint() *url.URL {
	u, err := url.Parse(g.TokenURL)
	if err != nil {
		return &url.URL{}
	}
	return u
}

// Request requests a token. It follows no redirect, and sets Style to that which the server accepts,
// so there must be one call at a time. Its errors, which may contain secrets, are those of oauth2.
func (g *Grant) Request(ctx context.Context, transport http.RoundTripper) (*oauth2.Token, error) {
	ctx = context.WithValue(ctx, oauth2.HTTPClient, &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	})
	config := clientcredentials.Config{
		ClientID: g.ClientID, ClientSecret: g.ClientSecret, TokenURL: g.TokenURL, Scopes: strings.Fields(g.Scope),
		AuthStyle: cmp.Or(g.Style, oauth2.AuthStyleInHeader),
	}
	if g.Audience != "" {
		config.EndpointParams = url.Values{"audience": {g.Audience}}
	}
	token, err := config.Token(ctx)
	// The library tries the other style whatever the answer was.
	if answer, ok := errors.AsType[*oauth2.RetrieveError](err); ok && g.Style == oauth2.AuthStyleAutoDetect && RefusesClient(answer.Response.StatusCode) {
		config.AuthStyle = oauth2.AuthStyleInParams
		token, err = config.Token(ctx)
	}
	if err == nil {
		g.Style = config.AuthStyle
	}
	return token, err
}

// RefusesClient reports whether a status refuses the client (RFC 6749, section 5.2).
func RefusesClient(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusUnauthorized
}

// Secrets returns the words of a token request that errors must not show.
func (g *Grant) Secrets() []string {
	basic := func(user, password string) string {
		return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	}
	words := []string{g.ClientSecret, basic(url.QueryEscape(g.ClientID), url.QueryEscape(g.ClientSecret))}
	u := g.Endpoint()
	if password, ok := u.User.Password(); ok {
		words = append(words, password, basic(u.User.Username(), password))
	}
	return append(append(words, u.RawQuery), redact.QueryValues(u.RawQuery)...)
}
