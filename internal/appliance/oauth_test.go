package appliance

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

const testSecret = "s3cret+/:word"

// cloud is a transport in place of a token endpoint and an appliance behind it.
type cloud struct {
	mu      sync.Mutex
	expires string // expires_in of the tokens, as JSON; empty: none
	// valid is the token that the appliance takes; empty: the last one issued.
	valid string
	// answerToken, if set, answers for the token endpoint.
	answerToken func(*http.Request) (*http.Response, error)

	issued, calls int
}

func (c *cloud) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(10 * time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.URL.Path == "/oauth2/token" {
		c.issued++
		if c.answerToken != nil {
			return c.answerToken(r)
		}
		body, _ := io.ReadAll(r.Body)
		id, secret, _ := r.BasicAuth()
		if r.Method != "POST" || string(body) != "grant_type=client_credentials" || id != "id" || secret != url.QueryEscape(testSecret) {
			return respond(r, 400, nil, `{"error": "invalid_client"}`)
		}
		expires := ""
		if c.expires != "" {
			expires = `,"expires_in":` + c.expires
		}
		return respond(r, 200, http.Header{"Content-Type": {"application/json"}},
			`{"access_token":"tok`+strconv.Itoa(c.issued)+`","token_type":"bearer"`+expires+`}`)
	}
	c.calls++
	valid := c.valid
	if valid == "" {
		valid = "tok" + strconv.Itoa(c.issued)
	}
	if r.Header.Get("Authorization") != "Bearer "+valid {
		return respond(r, 400, nil, "The specified access token is invalid.")
	}
	return respond(r, 200, nil, "[]")
}

func newCloudClient(t *testing.T, c *cloud) *Client {
	return newClientOf(t, func(o *Options) {
		o.URL, o.Transport, o.Key = "https://x.example", c, nil
		o.OAuth = grant(func() (string, error) { return testSecret + "\n", nil })
	})
}

func grant(secret func() (string, error)) *OAuth {
	return &OAuth{TokenURL: "https://x.example/oauth2/token", ClientID: "id", ClientSecret: secret}
}

func rightSecret() (string, error) { return testSecret, nil }

func TestATokenIsKeptUntilShortlyBeforeItEnds(t *testing.T) {
	for expires, want := range map[string]string{
		"600":    "0s 9m0s 18m0s 27m0s",
		`"600"`:  "0s 9m0s 18m0s 27m0s",
		"1799":   "0s 27m0s",
		"3600":   "0s",
		"":       "0s",
		"0":      "0s",
		"null":   "0s",
		"100000": "0s",
	} {
		t.Run("expires_in "+expires, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := &cloud{expires: expires}
				c := newCloudClient(t, cloud)
				start := time.Now()
				var asked []string
				for time.Since(start) < 30*time.Minute {
					issued := cloud.issued
					require.NoError(t, c.SearchDetections(t.Context(), anySearch, new(Page)))
					if cloud.issued > issued {
						asked = append(asked, time.Since(start).Truncate(time.Minute).String())
					}
					time.Sleep(30 * time.Second)
				}
				assert.Equal(t, strings.Join(asked, " "), want, "tokens asked for at")
			})
		})
	}
}

func TestOneTokenIsRequestedAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &cloud{expires: "600"}
		c := newCloudClient(t, cloud)
		for round := 1; round <= 3; round++ {
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					assert.NoError(t, c.SearchDetections(t.Context(), anySearch, new(Page)))
				})
			}
			wg.Wait()
			assert.Equal(t, cloud.issued, round, "round", "tokens")
			time.Sleep(10 * time.Minute)
		}
	})
}

func TestWaitingForATokenCanBeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &cloud{answerToken: func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}}
		c := newCloudClient(t, cloud)
		var wg sync.WaitGroup
		wg.Go(func() {
			assert.ErrorIs(t, failureOf(t, c.SearchDetections(t.Context(), anySearch, new(Page))), context.DeadlineExceeded)
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		e := failureOf(t, c.SearchDetections(ctx, anySearch, new(Page)))
		waited := time.Since(start)
		assert.True(t, waited == time.Second && errors.Is(e, context.DeadlineExceeded), waited, e)
		wg.Wait()
	})
}

func TestARefusedTokenIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &cloud{expires: "3600"}
		c := newCloudClient(t, cloud)
		search := func() error { return c.SearchDetections(t.Context(), anySearch, new(Page)) }
		require.NoError(t, search())
		cloud.valid = "tok2"
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				assert.NoError(t, search())
			})
		}
		wg.Wait()
		assert.Equal(t, cloud.issued, 2, "tokens for five refusals at once")
	})
}

func TestATokenIsNeverRepeated(t *testing.T) {
	const token = "t0ken-value"
	c := newClientOf(t, func(o *Options) {
		o.URL, o.Key = "https://x.example", nil
		o.OAuth = grant(rightSecret)
		o.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "token") {
				return respond(r, 200, nil, `{"access_token":"`+token+`"}`)
			}
			return respond(r, 500, nil, "you sent "+r.Header.Get("Authorization"))
		})
	})
	e := failureOf(t, c.SearchDetections(t.Context(), anySearch, new(Page)), token, testSecret)
	assert.Equal(t, e.Excerpt, "you sent Bearer [redacted]", e)
}

func TestATokenRefusedTwiceIsARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, tokens := 0, 0
		c := newClientOf(t, func(o *Options) {
			o.URL, o.Key = "https://x.example", nil
			o.OAuth = grant(rightSecret)
			o.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.URL.Path == "/oauth2/token" {
					tokens++
					return respond(r, 200, nil, fmt.Sprintf(`{"access_token":"tok%d"}`, tokens))
				}
				calls++
				return respond(r, 400, nil, "The specified access token is invalid.")
			})
		})
		e := failureOf(t, c.SearchDetections(t.Context(), anySearch, new(Page)))
		assert.True(t, e.Refused() && e.Path == "/api/v1/detections/search" && calls == 2 && tokens == 2, calls, "calls", tokens, "tokens", e)
	})
}

func TestFailuresOfTheTokenEndpoint(t *testing.T) {
	basic := base64.StdEncoding.EncodeToString([]byte("id:" + url.QueryEscape(testSecret)))
	json := http.Header{"Content-Type": {"application/json"}}
	for name, test := range map[string]struct {
		status    int
		header    http.Header
		body      string
		refused   bool
		throttled bool
		says      string
	}{
		"a secret that is wrong":                    {400, json, `{"error": "invalid_client"}`, true, false, "check oauth.client_id"},
		"a secret that is wrong, with a 401":        {401, json, `{"error": "invalid_client"}`, true, false, "check oauth.client_id"},
		"a grant that is not allowed":               {400, json, `{"error": "unauthorized_client"}`, true, false, ""},
		"a request that is wrong":                   {400, json, `{"error": "invalid_request"}`, false, false, `"invalid_request"`},
		"a path that is not there":                  {404, nil, "", false, false, "check oauth.token_url"},
		"a wait":                                    {429, http.Header{"Retry-After": {"7"}}, "", false, true, "after 7s"},
		"an outage":                                 {502, nil, "<html><title>Bad Gateway</title></html>", false, false, `"Bad Gateway"`},
		"a redirect":                                {302, http.Header{"Location": {"https://sso.example/login?x=y"}}, "", false, false, "https://sso.example/login;"},
		"a login page":                              {200, http.Header{"Content-Type": {"text/html"}}, "<html></html>", false, false, "check oauth.token_url"},
		"no token":                                  {200, json, `{}`, false, false, "check oauth.token_url"},
		"nothing":                                   {200, json, ``, false, false, "check oauth.token_url"},
		"a repetition of the secret":                {500, nil, "you sent " + testSecret + " as " + basic, false, false, "you sent [redacted] as [redacted]"},
		"a repetition of the secret in a refusal":   {400, json, `{"error": "` + testSecret + `"}`, false, false, "[redacted]"},
		"a repetition of the secret with a success": {200, http.Header{"Content-Type": {"text/plain"}}, testSecret + "%zz", false, false, "oauth.token_url"},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := &cloud{answerToken: func(r *http.Request) (*http.Response, error) {
				return respond(r, test.status, test.header, test.body)
			}}
			e := failureOf(t, newCloudClient(t, cloud).SearchDetections(t.Context(), anySearch, new(Page)),
				testSecret, url.QueryEscape(testSecret), basic)
			assert.True(t, e.Refused() == test.refused && e.Throttled() == test.throttled && strings.Contains(e.Error(), test.says), e)
			assert.True(t, e.Method == "POST" && e.Path == "/oauth2/token" && cloud.calls == 0 && cloud.issued == 1, e.Method, e.Path, cloud.calls, "calls", cloud.issued, "tokens")
		})
	}

	t.Run("a secret that cannot be read", func(t *testing.T) {
		cause := errors.New("no such file")
		c := newClientOf(t, func(o *Options) {
			o.URL, o.Key = "https://x.example", nil
			o.OAuth = grant(func() (string, error) { return "", cause })
		})
		e := failureOf(t, c.SearchDetections(t.Context(), anySearch, new(Page)))
		assert.True(t, errors.Is(e, cause) && e.Path == "/oauth2/token", e)
	})

	t.Run("a body that stalls", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cloud := &cloud{answerToken: func(r *http.Request) (*http.Response, error) {
				resp, err := respond(r, 200, nil, "")
				resp.Body = stalled{r.Context()}
				return resp, err
			}}
			e := failureOf(t, newCloudClient(t, cloud).SearchDetections(t.Context(), anySearch, new(Page)))
			assert.True(t, errors.Is(e, context.DeadlineExceeded) && strings.Contains(e.Error(), "within 5s"), e)
		})
	})
}

// stalled is a body that never comes.
type stalled struct{ ctx context.Context }

func (s stalled) Read([]byte) (int, error) { <-s.ctx.Done(); return 0, s.ctx.Err() }
func (s stalled) Close() error             { return nil }

func TestTokenRequestsCountTowardsTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var at []string
		c := newClientOf(t, func(o *Options) {
			o.URL, o.Key, o.RateLimit = "https://x.example", nil, 1
			o.OAuth = grant(rightSecret)
			o.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
				at = append(at, r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]+" "+time.Since(start).String())
				if strings.HasSuffix(r.URL.Path, "token") {
					return respond(r, 200, nil, `{"access_token":"tok"}`)
				}
				return respond(r, 200, nil, "[]")
			})
		})
		require.NoError(t, c.SearchDetections(t.Context(), anySearch, new(Page)))
		assert.Equal(t, fmt.Sprint(at), "[token 0s search 1s]", "sent", at)
	})
}

func TestATokenWithALineBreakIsRequestedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &cloud{valid: "tok9"}
		c := newClientOf(t, func(o *Options) {
			o.URL, o.Transport, o.Key = "https://hq.example", cloud, nil
			o.OAuth = &OAuth{TokenURL: "https://hq.example/oauth2/token", ClientID: "id", ClientSecret: func() (string, error) { return testSecret, nil }}
		})
		token := func(text string) func(*http.Request) (*http.Response, error) {
			return func(r *http.Request) (*http.Response, error) {
				return respond(r, 200, http.Header{"Content-Type": {"application/json"}}, `{"access_token":"`+text+`","token_type":"bearer","expires_in":3600}`)
			}
		}
		cloud.answerToken = token(`tok\r\n9`)
		err := c.SearchDetections(t.Context(), anySearch, new(Page))
		e := failureOf(t, err, "tok"+"\r")
		assert.True(t, strings.Contains(e.Error(), "line break") && cloud.calls <= 0, cloud.calls, "calls", e)
		cloud.answerToken = token(`tok9`)
		assert.NoError(t, c.SearchDetections(t.Context(), anySearch, new(Page)), "once it is right")
	})
}
