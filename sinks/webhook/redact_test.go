package webhook_test

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

func TestNoErrorShowsASecret(t *testing.T) {
	long := strings.Repeat("l0ngsecret", 150)
	options := []webhook.Options{
		{Bearer: "s3cret/bearer+&<token>"},
		{Bearer: long},
		{Username: "bridge", Password: "s3cret&word"},
		{Headers: map[string]string{"X-Api-Key": "s3cret-key-1", "Authorization": "Splunk s3cret-key-2"}},
	}
	same := func(text string) string { return text }
	failures := []struct {
		name  string
		serve func(w http.ResponseWriter, r *http.Request)
	}{
		{"an answer that repeats the request", answerWith(401, same)},
		{"an answer that repeats the request as a JSON string", answerWith(422, strconv.Quote)},
		{"an answer that repeats the request in HTML", answerWith(500, html.EscapeString)},
		{"an answer that repeats the request percent-encoded", answerWith(429, url.QueryEscape)},
		{"a redirect to where it came from", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", r.RequestURI+"/")
			w.WriteHeader(308)
		}},
		{"a redirect to another host", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "https://u:s3cret@elsewhere.example"+r.RequestURI)
			w.WriteHeader(302)
		}},
		{"an answer that is cut off in a secret", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			w.WriteHeader(400)
			fmt.Fprintf(w, "you sent %.18s", r.Header.Get("Authorization")+r.Header.Get("X-Api-Key"))
		}},
		{"an answer that is not HTTP", func(w http.ResponseWriter, r *http.Request) {
			conn, _, _ := http.NewResponseController(w).Hijack()
			fmt.Fprintf(conn, "no HTTP: %s %s\r\n", r.RequestURI, r.Header.Get("Authorization"))
			conn.Close()
		}},
	}
	for _, failure := range failures {
		t.Run(failure.name, func(t *testing.T) {
			r := newReceiver(t).start()
			r.answers(failure.serve)
			for _, mode := range modes {
				for _, o := range options {
					o.Mode = mode
					o.URL = r.server.URL + "/services/T000/s3cretpath?key=s3cretquery&sig=s3cret%2Fsig"
					err := open(t, o).Send(t.Context(), sinktest.Events(1, 1, 0))
					require.True(t, err != nil, "no")
					for _, secret := range []string{"s3cret", "l0ngsecret", "YnJpZGdl"} {
						assert.NotContains(t, err.Error(), secret, "the error shows a secret", err)
					}
					assert.Contains(t, err.Error(), r.server.URL, "the error does not say who answered", err)
				}
			}
		})
	}
}

// answerWith returns a handler that repeats the request in its answer.
func answerWith(status int, as func(string) string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		request, _ := httputil.DumpRequest(r, false)
		w.WriteHeader(status)
		for range 4 {
			fmt.Fprintln(w, as(r.Header.Get("Authorization")), as(r.Header.Get("X-Api-Key")), as(r.RequestURI), as(string(request)))
		}
	}
}

func TestARedirectThatRepeatsAShortPathDoesNotShowIt(t *testing.T) {
	r := newReceiver(t).start()
	r.answers(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/login/"+path.Base(r.URL.Path))
		w.WriteHeader(302)
	})
	err := open(t, webhook.Options{URL: r.server.URL + "/x/ses9", Mode: transform.Batch}).Send(t.Context(), sinktest.Events(1, 1, 0))
	assert.True(t, err != nil && !strings.Contains(err.Error(), "ses9") && strings.Contains(err.Error(), "/login/[redacted];"), err)
}

func TestTheSchemeOfCredentialsIsShown(t *testing.T) {
	r := newReceiver(t).start()
	r.answers(answerWith(400, func(string) string { return "Splunk refuses token s3cret-key" }))
	o := webhook.Options{URL: r.server.URL, Mode: transform.Batch, Headers: map[string]string{"authorization": "Splunk s3cret-key"}}
	err := open(t, o).Send(t.Context(), sinktest.Events(1, 1, 0))
	assert.ErrorContains(t, err, "Splunk refuses token [redacted]")
}

func TestAnExcerptIsShortAndPrintable(t *testing.T) {
	r := newReceiver(t).start()
	for _, test := range []struct {
		name, answer, want string
	}{
		{"a plain text", "the token\n has  expired\r\n", "the token has expired"},
		{"control characters and broken UTF-8", "\x1b[31mred\x00\xff\u200b é 日本語", "[31mred é 日本語"},
		{"white space alone", " \n\t ", ""},
		{"a long text", strings.Repeat("é", 5000), strings.Repeat("é", 256)},
		{"a long text of words", strings.Repeat("w ", 5000), strings.Repeat("w ", 128)},
	} {
		t.Run(test.name, func(t *testing.T) {
			r.answers(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(400)
				fmt.Fprint(w, test.answer)
			})
			s := open(t, webhook.Options{URL: r.server.URL, Mode: transform.Batch})
			err := s.Send(t.Context(), sinktest.Events(1, 1, 0))
			sinktest.ExpectFailure(t, err, failure.Rejected)
			_, excerpt, _ := strings.Cut(err.Error(), "400 Bad Request")
			excerpt = strings.TrimPrefix(excerpt, ": ")
			assert.Equal(t, excerpt, test.want, "excerpt")
			n := utf8.RuneCountInString(excerpt)
			assert.True(t, n <= 256 && !strings.ContainsFunc(excerpt, func(c rune) bool { return !unicode.IsPrint(c) }), n, "characters", excerpt)
		})
	}
}
