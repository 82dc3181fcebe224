package admin

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestOnlyStreamsMayTakeLong(t *testing.T) {
	for media, want := range map[string]bool{
		"application/json": false, "application/problem+json": false, "": false,
		"text/event-stream": true, "application/x-ndjson": true, "application/octet-stream": true,
	} {
		assert.Equal(t, isStream(http.Header{"Content-Type": {media}}), want, media)
	}
}

func TestAnOwnerThatHangsIsBounded(t *testing.T) {
	for _, test := range []struct {
		name, method string
		answer       func(w http.ResponseWriter, r *http.Request)
		broken       bool // the answer begins, and breaks off
	}{
		{"before it answers a read", http.MethodGet, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, false},
		{"before it answers a change", http.MethodPost, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, false},
		{"within its answer", http.MethodGet, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Server", serverName)
			_, _ = io.WriteString(w, "{")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			owner := httptest.NewServer(http.HandlerFunc(test.answer))
			defer owner.Close()
			f := Options{Owner: func() (string, bool, string) { return owner.URL, false, "" }}.newForwarder()
			f.read, f.change, f.gap = 50*time.Millisecond, 100*time.Millisecond, 50*time.Millisecond
			member := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				f.forward(w, r, served{route: API.GetStatus.route})
			}))
			defer member.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, test.method, member.URL, nil)
			require.NoError(t, err)
			answer := require.Value(http.DefaultClient.Do(r))(t)
			defer answer.Body.Close()
			body, err := io.ReadAll(answer.Body)
			if test.broken {
				assert.Error(t, err, "the answer", string(body), "does not break off")
				return
			}
			assert.True(t, answer.StatusCode == http.StatusServiceUnavailable && strings.Contains(string(body), "it did not answer in time"), answer.StatusCode, string(body), err)
		})
	}
}
