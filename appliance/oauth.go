package appliance

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"ndrbridge/internal/redact"
	"ndrbridge/internal/secretfile"
)

// OAuth is the client credentials grant (RFC 6749, section 4.4).
type OAuth struct {
	// TokenURL is where tokens are asked for, with HTTP Basic.
	TokenURL string
	ClientID string
	// ClientSecret returns the secret. It is called for each token.
	ClientSecret func() (string, error)
}

// tokenAuthority signs in with tokens.
type tokenAuthority struct {
	o    OAuth
	path string // of the token endpoint
	// secrets are those that the endpoint's URL holds.
	secrets []string
	link    *link

	// gate is held while the fields below are used: one token is asked for at a
	// time, and who waits for it can be called off.
	gate    chan struct{}
	current credential // zero: to be asked for
	until   time.Time  // when to ask for the next; zero: once it is refused
}

func newTokenAuthority(o OAuth, l *link) (*tokenAuthority, error) {
	u, err := url.Parse(o.TokenURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("the token URL must be http or https with a host")
	}
	if o.ClientID == "" || o.ClientSecret == nil {
		return nil, errors.New("OAuth needs a client id and its secret")
	}
	return &tokenAuthority{o: o, path: u.Path, secrets: secretsOfURL(o.TokenURL), link: l, gate: make(chan struct{}, 1)}, nil
}

func (t *tokenAuthority) credential(ctx context.Context) (credential, error) {
	select {
	case t.gate <- struct{}{}:
		defer func() { <-t.gate }()
	case <-ctx.Done():
		return credential{}, fmt.Errorf("wait for a token: %w", ctx.Err())
	}
	if t.current.header != "" && (t.until.IsZero() || time.Now().Before(t.until)) {
		return t.current, nil
	}
	asked := time.Now()
	token, err := t.fetch(ctx)
	if err != nil {
		return credential{}, err
	}
	if header := token.Type() + " " + token.AccessToken; secretfile.HasControl(header) {
		return credential{}, &Error{Method: http.MethodPost, Path: t.path, Err: errors.New(
			"the token endpoint returned a token with a line break or another control character, which no header can hold: is oauth.token_url right?")}
	}
	t.current = credential{
		header:  token.Type() + " " + token.AccessToken,
		secrets: []string{token.AccessToken},
	}
	t.until = time.Time{}
	if !token.Expiry.IsZero() {
		// A tenth is left for clocks that run apart and requests under way.
		t.until = asked.Add(token.Expiry.Sub(asked) / 10 * 9)
	}
	return t.current, nil
}

func (t *tokenAuthority) refused(c credential) {
	t.gate <- struct{}{}
	defer func() { <-t.gate }()
	if t.current.header == c.header {
		t.current = credential{}
	}
}

// fetch asks for a token. Its error is an *Error.
func (t *tokenAuthority) fetch(ctx context.Context) (*oauth2.Token, error) {
	e := &Error{Method: http.MethodPost, Path: t.path}
	secret, err := t.o.ClientSecret()
	if err != nil {
		e.Err = fmt.Errorf("read the client secret: %w", err)
		return nil, e
	}
	ctx, cancel, err := t.link.turn(ctx, urgentQueue)
	if err != nil {
		e.Err = err
		return nil, e
	}
	defer cancel()
	secret = strings.TrimSpace(secret)
	config := clientcredentials.Config{
		ClientID:     t.o.ClientID,
		ClientSecret: secret,
		TokenURL:     t.o.TokenURL,
		AuthStyle:    oauth2.AuthStyleInHeader,
	}
	token, err := config.Token(context.WithValue(ctx, oauth2.HTTPClient, t.link.http))
	if err == nil {
		return token, nil
	}
	answer, answered := errors.AsType[*oauth2.RetrieveError](err)
	_, unsent := errors.AsType[*url.Error](err)
	switch {
	case answered:
		e.answered(answer.Response, answer.Body, wrongTokenURL, "check oauth.client_id and the client secret")
	case unsent:
		e.Err = t.link.explain(err)
	case ctx.Err() != nil: // while the body was read; err has lost the cause
		e.Err = t.link.explain(ctx.Err())
	default:
		e.Err = fmt.Errorf("%w: %s", err, wrongTokenURL)
	}
	basic := base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(t.o.ClientID) + ":" + url.QueryEscape(secret)))
	e.redact(slices.Concat(t.link.secrets, t.secrets, []string{secret, basic}))
	return nil, e
}

// secretsOfURL are the password of a URL and its query, whole and by its values, as
// they are and as they were sent.
func secretsOfURL(text string) []string {
	u, err := url.Parse(text)
	if err != nil {
		return nil
	}
	password, _ := u.User.Password()
	return append([]string{password, u.RawQuery}, redact.QueryValues(u.RawQuery)...)
}

const wrongTokenURL = "is oauth.token_url right?"

func (t *tokenAuthority) advice() string {
	return "check what the owner of oauth.client_id may do on the appliance"
}
