package appliance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/oauth2"

	"ndrbridge/internal/oauthtoken"
)

// OAuth is the client credentials grant (RFC 6749, section 4.4).
type OAuth struct {
	// TokenURL is the token endpoint; requests use HTTP Basic authentication.
	TokenURL string
	ClientID string
	// ClientSecret returns the secret. It is called for each token.
	ClientSecret func() (string, error)
}

// tokenAuthority authorizes with tokens.
type tokenAuthority struct {
	o        OAuth
	endpoint *url.URL
	link     *link
	cache    *oauthtoken.Cache
}

func newTokenAuthority(o OAuth, l *link) (*tokenAuthority, error) {
	u, err := url.Parse(o.TokenURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("the token URL must be http or https with a host")
	}
	if o.ClientID == "" || o.ClientSecret == nil {
		return nil, errors.New("OAuth requires a client id and a client secret")
	}
	t := &tokenAuthority{o: o, endpoint: u, link: l}
	t.cache = oauthtoken.NewCache(t.fetch)
	return t, nil
}

func (t *tokenAuthority) credential(ctx context.Context) (credential, error) {
	token, err := t.cache.Get(ctx)
	if errors.Is(err, oauthtoken.ErrControl) {
		err = &Error{Method: http.MethodPost, Path: t.endpoint.Path, Err: fmt.Errorf("%w; %s", err, wrongTokenURL)}
	}
	if err != nil {
		return credential{}, err
	}
	return credential{header: token.Header, secrets: []string{token.Secret}}, nil
}

func (t *tokenAuthority) refused(c credential) { t.cache.Refused(oauthtoken.Token{Header: c.header}) }

// fetch requests a token. Its error is an *Error.
func (t *tokenAuthority) fetch(ctx context.Context) (*oauth2.Token, error) {
	e := &Error{Method: http.MethodPost, Path: t.endpoint.Path}
	secret, err := t.o.ClientSecret()
	if err != nil {
		e.Err = fmt.Errorf("read the client secret: %w", err)
		return nil, e
	}
	ctx, cancel, err := t.link.admit(ctx, false)
	if err != nil {
		e.Err = err
		return nil, e
	}
	defer cancel()
	grant := oauthtoken.Grant{TokenURL: t.o.TokenURL, ClientID: t.o.ClientID, ClientSecret: strings.TrimSpace(secret), Style: oauth2.AuthStyleInHeader}
	token, err := grant.Request(ctx, t.link.http.Transport)
	if err == nil {
		return token, nil
	}
	secrets := t.link.secrets(grant.Secrets()...)
	answer, answered := errors.AsType[*oauth2.RetrieveError](err)
	_, unsent := errors.AsType[*url.Error](err)
	switch {
	case answered:
		e.answered(answer.Response, answer.Body, secrets, wrongTokenURL, "check oauth.client_id and the client secret")
	case unsent:
		e.Err = t.link.explain(err, "oauth.token_url", t.endpoint, secrets)
	case ctx.Err() != nil: // while the body was read; err does not wrap the cause
		e.Err = t.link.explain(ctx.Err(), "oauth.token_url", t.endpoint, secrets)
	default:
		e.Err = fmt.Errorf("%w: %s", secrets.HideError(err), wrongTokenURL)
	}
	return nil, e
}

const wrongTokenURL = "check oauth.token_url"

func (t *tokenAuthority) advice() string {
	return "check the privileges of oauth.client_id on the appliance"
}
