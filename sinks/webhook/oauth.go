package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/oauthtoken"
)

// maxTokenAnswer limits the answer to a token request, in bytes.
const maxTokenAnswer = 64 << 10

// tokens requests tokens and authorizes requests with them.
type tokens struct {
	s         *Sink
	grant     oauthtoken.Grant
	transport *http.Transport // of the sink, but for the host of the token endpoint
	proxy     *url.URL
	target    string // method, scheme and host, for errors
	cache     *oauthtoken.Cache
}

// newTokens returns the tokens of a sink whose options are checked. It copies the sink's
// transport.
func newTokens(s *Sink, grant oauthtoken.Grant, proxy *url.URL) *tokens {
	endpoint := grant.Endpoint()
	t := &tokens{s: s, grant: grant, proxy: proxy, transport: s.transport.Clone()}
	t.target = "POST to the token endpoint " + endpoint.Scheme + "://" + endpoint.Host
	if c := t.transport.TLSClientConfig; c != nil && endpoint.Hostname() != s.request.URL.Hostname() {
		c.ServerName = "" // it names the target of the events
	}
	t.transport.Proxy = http.ProxyURL(proxy)
	t.cache = oauthtoken.NewCache(t.fetch)
	return t
}

// peer returns the token endpoint, as failure.Explain describes it.
func (t *tokens) peer() failure.Peer {
	config := t.s.o.TLS.Clone()
	if config != nil && t.grant.Endpoint().Hostname() != t.s.request.URL.Hostname() {
		config.ServerName = "" // as in the transport
	}
	return peerOf("auth.oauth.token_url", t.grant.Endpoint(), t.proxy, config, t.s.hidden())
}

// tokenError is the error of a request that was not sent because no token was issued.
type tokenError struct{ error }

func (e *tokenError) Unwrap() error { return e.error }

// get returns a token. Its error is a *tokenError, which wraps a *failure.Error or the
// error of a cancelled ctx.
func (t *tokens) get(ctx context.Context) (oauthtoken.Token, error) {
	token, err := t.cache.Get(ctx)
	if err == nil {
		return token, nil
	}
	if errors.Is(err, oauthtoken.ErrControl) {
		err = failure.Errorf(failure.Halted, "%s: %w; %s", t.target, err, wrongTokenURL)
	} else if _, classified := errors.AsType[*failure.Error](err); !classified {
		err = t.s.unanswered(ctx, t.target, t.peer(), err)
	}
	return oauthtoken.Token{}, &tokenError{err}
}

const wrongTokenURL = "check auth.oauth.token_url"

// fetch requests a token.
func (t *tokens) fetch(ctx context.Context) (*oauth2.Token, error) {
	token, err := t.grant.Request(ctx, t)
	if err != nil {
		return nil, t.explain(ctx, err)
	}
	t.s.secrets.addToken(token.AccessToken)
	if size := len("Authorization: ") + len(token.Type()) + len(" ") + len(token.AccessToken); size > maxField {
		return nil, failure.Errorf(failure.Halted, "%s: the header field with its token has %d bytes; servers accept at most %d", t.target, size, maxField)
	}
	return token, nil
}

// RoundTrip implements http.RoundTripper for a token request: it reads the answer, up to
// maxTokenAnswer. It returns an error if an answer of 2xx is incomplete. The body of status
// 101 is empty: it would be the connection, and reading that does not end with the request.
func (t *tokens) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("User-Agent", t.s.request.Header.Get("User-Agent")) // nobody else uses the request
	answer, err := t.transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusSwitchingProtocols {
		answer.Body = http.NoBody
		return answer, nil
	}
	body, err := t.s.read(answer, maxTokenAnswer)
	if err != nil {
		return nil, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	return answer, nil
}

// explain returns the error of a failed token request, without secrets. It is never
// Rejected, since no event was sent.
func (t *tokens) explain(ctx context.Context, err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return t.s.unanswered(ctx, t.target, t.peer(), failed.Err) // the URL may contain secrets
	}
	answer, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		return failure.Errorf(failure.Halted, "%s: it answered without a token; %s: %s", t.target, wrongTokenURL, t.s.excerpt(err.Error()))
	}
	status := answer.Response.StatusCode
	class, wait := classAndWait(status, answer.Response.Header)
	if class == failure.Rejected || status/100 == 2 {
		class = failure.Halted
	}
	text := statusText(status)
	if class == failure.Halted {
		text += " (" + tokenAdvice(status, answer.ErrorCode) + ")"
	}
	said := string(answer.Body)
	if answer.ErrorCode != "" {
		said = strings.TrimSpace(answer.ErrorCode + ": " + answer.ErrorDescription)
	}
	if said = t.s.excerpt(said); said != "" {
		text += ": " + said
	}
	refused := failure.Errorf(class, "%s: %s", t.target, text)
	refused.Scope, refused.RetryAfter, refused.Cause = failure.ScopeTarget, wait, failure.CauseOfStatus(status)
	return refused
}

// tokenAdvice returns what to check when the token endpoint refuses a request, by the
// codes of RFC 6749, section 5.2.
func tokenAdvice(status int, code string) string {
	switch {
	case code == "invalid_scope":
		return "check auth.oauth.scope"
	case code == "unauthorized_client" || code == "unsupported_grant_type":
		return "let the client auth.oauth.client_id use the client credentials grant"
	case code == "invalid_client" || oauthtoken.RefusesClient(status):
		return "check auth.oauth: token_url, client_id and the client secret, which may have expired"
	}
	return wrongTokenURL
}

// check requests a token and reports whether one was issued.
func (t *tokens) check(ctx context.Context) (found []finding.Finding, issued bool) {
	if t.grant.Endpoint().Scheme == "http" {
		found = append(found, finding.Finding{
			Step: "token tls", Result: finding.Warning, Detail: "plain http: anyone on the network path can read the client secret and the tokens",
			Advice: "use https in auth.oauth.token_url",
		})
	}
	ctx, cancel := t.s.withTimeout(ctx)
	defer cancel()
	token, err := t.get(ctx)
	if err != nil {
		f := finding.Finding{Step: "token", Result: finding.Failed, Detail: err.Error(), Advice: "correct auth.oauth, or let this machine reach its token_url"}
		if class, _ := failure.ClassOf(err); class == failure.Throttled {
			f.Result, f.Advice = finding.Warning, "it may be temporary; check again later"
		}
		return append(found, f), false
	}
	detail := "the token endpoint issued a token that does not expire"
	if token.Lifetime > 0 {
		detail = fmt.Sprintf("the token endpoint issued a token for %s", token.Lifetime.Round(time.Second))
	}
	return append(found, finding.Finding{Step: "token", Result: finding.OK, Detail: detail}), true
}

// authorized sends a request, with a token if the sink uses OAuth.
func (s *Sink) authorized(r *http.Request) (*http.Response, error) {
	if s.tokens == nil {
		return s.transport.RoundTrip(r)
	}
	token, err := s.tokens.get(r.Context())
	if err != nil {
		return nil, err
	}
	answer, err := s.transport.RoundTrip(withToken(r, token))
	if err != nil || answer.StatusCode != http.StatusUnauthorized {
		return answer, err
	}
	_, _ = io.CopyN(io.Discard, answer.Body, maxDrained)
	_ = answer.Body.Close()
	s.tokens.cache.Refused(token)
	if token, err = s.tokens.get(r.Context()); err != nil {
		return nil, err
	}
	return s.transport.RoundTrip(withToken(r, token))
}

// withToken returns a copy of a request with a token and a body of its own.
func withToken(r *http.Request, token oauthtoken.Token) *http.Request {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", token.Header)
	if r.GetBody != nil {
		r.Body, _ = r.GetBody() // it never fails
	}
	return r
}
