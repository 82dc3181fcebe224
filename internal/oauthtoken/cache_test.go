package oauthtoken_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/oauth2"

	"ndrbridge/internal/oauthtoken"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// endpoint issues tokens, each with its number.
type endpoint struct {
	lifetime time.Duration // 0: not reported
	issued   int
}

func (e *endpoint) fetch(ctx context.Context) (*oauth2.Token, error) {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	e.issued++
	token := &oauth2.Token{AccessToken: fmt.Sprint("t", e.issued), TokenType: "bearer"}
	if e.lifetime != 0 {
		token.Expiry = time.Now().Add(e.lifetime)
	}
	return token, nil
}

func TestATokenIsKeptUntilATenthOfItsLifetimeIsLeft(t *testing.T) {
	for lifetime, want := range map[time.Duration]string{
		10 * time.Minute: "0m 10m 20m", // used until 9m0.9s after its request
		time.Hour:        "0m",
		0:                "0m",
		-time.Minute:     "0m 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 11m 12m 13m 14m 15m 16m 17m 18m 19m 20m 21m 22m 23m 24m 25m",
	} {
		t.Run(lifetime.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &endpoint{lifetime: lifetime}
				c := oauthtoken.NewCache(e.fetch)
				start := time.Now()
				var fetched []string
				for minute := range 26 {
					time.Sleep(time.Until(start.Add(time.Duration(minute) * time.Minute)))
					before := e.issued
					token, err := c.Get(t.Context())
					want := fmt.Sprint("Bearer t", e.issued)
					require.True(t, err == nil && token.Header == want, token, err, want)
					if e.issued > before {
						fetched = append(fetched, fmt.Sprint(minute, "m"))
					}
				}
				assert.Equal(t, strings.Join(fetched, " "), want, "requested at")
			})
		})
	}
}

func TestOneTokenIsRequestedAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{}
		c := oauthtoken.NewCache(e.fetch)
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				token, err := c.Get(t.Context())
				assert.True(t, err == nil && token.Header == "Bearer t1", token, err)
			})
		}
		all.Wait()
		assert.Equal(t, e.issued, 1, "tokens for ten callers at once")
	})
}

func TestARefusalReplacesATokenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{}
		c := oauthtoken.NewCache(e.fetch)
		first := require.Value(c.Get(t.Context()))(t)
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				c.Refused(first)
				second, err := c.Get(t.Context())
				assert.True(t, err == nil && second.Header == "Bearer t2", second, err)
			})
		}
		all.Wait()
		assert.Equal(t, e.issued, 2, "tokens for ten refusals of the first")
	})
}

func TestWaitingForATokenCanBeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := oauthtoken.NewCache(func(ctx context.Context) (*oauth2.Token, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		slow, cancelSlow := context.WithTimeout(t.Context(), time.Hour)
		defer cancelSlow()
		var all sync.WaitGroup
		all.Go(func() {
			_, err := c.Get(slow)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := c.Get(ctx)
		assert.True(t, errors.Is(err, context.DeadlineExceeded) && time.Since(start) == time.Second, time.Since(start), err)
		all.Wait()
	})
}

func TestATokenThatNoHeaderCanContainIsNotKept(t *testing.T) {
	text := "a\nb"
	c := oauthtoken.NewCache(func(context.Context) (*oauth2.Token, error) {
		return &oauth2.Token{AccessToken: text}, nil
	})
	_, err := c.Get(t.Context())
	assert.True(t, errors.Is(err, oauthtoken.ErrControl) && !strings.Contains(err.Error(), text), err)
	text = "ab"
	assert.Equal(t, require.Value(c.Get(t.Context()))(t).Secret, "ab")
}
