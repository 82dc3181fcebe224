// Package oauthtoken requests and caches access tokens of the OAuth 2.0 client credentials grant
// (RFC 6749, section 4.4).
package oauthtoken

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"ndrbridge/internal/secretfile"
)

// ErrControl means that the token endpoint returned a token that no header can contain.
var ErrControl = errors.New("the token endpoint returned a token with a line break or another control character, which no header can contain")

// Token is an access token. The zero value is none.
type Token struct {
	Header string // the value of Authorization
	Secret string // the token itself, which must not appear in errors
	// Lifetime is how long the token is valid, from the time when it was requested; zero
	// means until it is refused.
	Lifetime time.Duration
}

// Cache keeps a token until shortly before it expires, or until it is refused. It is safe
// for concurrent use.
type Cache struct {
	fetch func(context.Context) (*oauth2.Token, error)

	// gate lets one token be requested at a time; a caller that waits can be cancelled.
	gate chan struct{}

	mu      sync.Mutex
	current Token     // zero if it must be requested
	until   time.Time // when to request the next one; zero means when it is refused
}

// NewCache returns an empty cache. fetch requests a token; it is never called
// concurrently.
func NewCache(fetch func(context.Context) (*oauth2.Token, error)) *Cache {
	return &Cache{fetch: fetch, gate: make(chan struct{}, 1)}
}

// Get returns the token, and requests one first if there is none or it is about to expire.
// The error is that of fetch, wraps ErrControl, or wraps that of ctx if it ended while
// another caller requested a token.
func (c *Cache) Get(ctx context.Context) (Token, error) {
	select {
	case c.gate <- struct{}{}:
		defer func() { <-c.gate }()
	case <-ctx.Done():
		return Token{}, fmt.Errorf("wait for a token: %w", ctx.Err())
	}
	if t, ok := c.valid(); ok {
		return t, nil
	}
	requested := time.Now()
	fetched, err := c.fetch(ctx)
	if err != nil {
		return Token{}, err
	}
	t := Token{Header: fetched.Type() + " " + fetched.AccessToken, Secret: fetched.AccessToken}
	if secretfile.HasControl(t.Header) {
		return Token{}, ErrControl
	}
	if !fetched.Expiry.IsZero() {
		t.Lifetime = fetched.Expiry.Sub(requested)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current, c.until = t, time.Time{}
	if t.Lifetime != 0 {
		// A margin of a tenth allows for differing clocks and requests in flight.
		c.until = requested.Add(t.Lifetime / 10 * 9)
	}
	return t, nil
}

// valid returns the current token, if it is not about to expire.
func (c *Cache) valid() (Token, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current, c.current.Header != "" && (c.until.IsZero() || time.Now().Before(c.until))
}

// Refused reports that t was not accepted: unless a newer token is there already, the next
// call of Get requests one.
func (c *Cache) Refused(t Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current.Header == t.Header {
		c.current = Token{}
	}
}
