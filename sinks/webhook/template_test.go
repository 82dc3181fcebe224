package webhook_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

// post is a request that came.
type post struct{ contentType, body string }

// startPosts is a receiver that keeps what comes.
func startPosts(t *testing.T) (url string, received func() []post) {
	var mu sync.Mutex
	var posts []post
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		posts = append(posts, post{r.Header.Get("Content-Type"), string(body)})
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []post {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(posts)
	}
}

func TestATemplateMakesTheBodies(t *testing.T) {
	for _, test := range []struct {
		name, text, contentType string // contentType: that is configured
		want                    []post
	}{
		{"JSON by default", `{"text": {{json .detection.title}}, "score": {{.detection.risk_score}}}`, "", []post{
			{"application/json", `{"text": "A scan of ports", "score": 0}`}, {"application/json", `{"text": "A scan of ports", "score": 1}`},
		}},
		{"any text where the content type says so", "{{.detection.title}}: {{.detection.risk_score}}", "text/plain; charset=utf-8", []post{
			{"text/plain; charset=utf-8", "A scan of ports: 0"}, {"text/plain; charset=utf-8", "A scan of ports: 1"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			url, received := startPosts(t)
			o := webhook.Options{URL: url, Template: template(t, test.text, test.contentType == "")}
			if test.contentType != "" {
				o.Headers = map[string]string{"content-type": test.contentType}
			}
			require.NoError(t, open(t, o).Send(t.Context(), sinktest.Events(2, 1, 0)))
			assert.EqualSlices(t, received(), test.want)
		})
	}
}

func TestAnEventThatATemplateFailsForIsRejectedAlone(t *testing.T) {
	for _, test := range []struct{ name, fails, want string }{
		{"with an error", `{{truncate 0 .event.id}}`, "at least 1"},
		{"because it loops", `{{range 99999999999}}{{end}}`, "it loops too often"},
	} {
		t.Run(test.name, func(t *testing.T) {
			url, received := startPosts(t)
			events := sinktest.Events(5, 5, 0)
			o := webhook.Options{URL: url, Template: template(t, `{{if eq (int .detection.risk_score) 2}}`+test.fails+`{{end}}{}`, true)}
			dead, _ := deliver(t, o, checkpoint.Batch{MaxEvents: 10, MaxBytes: 1 << 20}, events)
			assert.EqualSlices(t, dead, []string{events[2].ID}, "dead letters")
			assert.Equal(t, len(received()), 4, "requests")
			err := open(t, o).Send(t.Context(), events[2:3])
			require.True(t, err != nil, "no")
			sinktest.ExpectFailure(t, err, failure.Rejected, "not sent: line 1, column ", test.want)
		})
	}
}

func TestWhatIsTooLargeIsRejectedWithoutBeingSent(t *testing.T) {
	events := sinktest.Events(5, 5, 600)
	events[2] = sinktest.Events(3, 3, 4000)[2]
	for _, test := range []struct {
		name    string
		options webhook.Options
	}{
		{"structured mode", webhook.Options{MaxBodyBytes: 2000}},
		{"structured mode, however well it compresses", webhook.Options{MaxBodyBytes: 2000, Gzip: true}},
		{"binary mode", webhook.Options{MaxBodyBytes: 2000, Mode: transform.Binary}},
		{"batch mode, which sends as many requests as it takes", webhook.Options{MaxBodyBytes: 2000, Mode: transform.Batch}},
		{"a template", webhook.Options{MaxBodyBytes: 2000, Template: template(t, `{{json .detection.description}}`, true)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			url, received := startPosts(t)
			o := test.options
			o.URL = url
			err := open(t, o).Send(t.Context(), events)
			results, _ := errors.AsType[failure.EventErrors](err)
			require.Equal(t, len(results), len(events), err)
			for i, err := range results {
				class, _ := failure.ClassOf(err)
				assert.True(t, (i != 2 || class == failure.Rejected && strings.Contains(err.Error(), "not sent: ")) && (i >= 2 || err == nil), "event", i, err)
			}
			if got := len(received()); got != 2 { // a batch goes on behind it
				t.Errorf("%d requests", got)
			}
			for _, p := range received() {
				assert.True(t, len(p.body) <= 2000, "a body of", len(p.body), "bytes was sent")
			}
		})
	}
	t.Run("10 MiB where nothing is said", func(t *testing.T) {
		url, received := startPosts(t)
		err := open(t, webhook.Options{URL: url}).Send(t.Context(), sinktest.Events(1, 1, 10<<20+1))
		if err == nil || !strings.Contains(err.Error(), "larger than max_body_bytes, which is 10485760") || len(received()) != 0 {
			t.Errorf("error %v, %d requests", err, len(received()))
		}
	})
	t.Run("what a preset makes", func(t *testing.T) {
		url, received := startPosts(t)
		o := webhook.Options{URL: url, Preset: lines{}.preset(), MaxBodyBytes: 20}
		dead, _ := deliver(t, o, checkpoint.Batch{MaxEvents: 1, MaxBytes: 1 << 20}, named(t, "a", strings.Repeat("b", 30), "c"))
		assert.Equal(t, len(dead), 1, "dead letters")
		assert.Equal(t, len(received()), 2, "requests")
	})
	t.Run("a header that its attributes make too large", func(t *testing.T) {
		url, received := startPosts(t)
		e, err := transform.New(transform.Attributes{
			ID: "1-1", Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection.created", PartitionKey: "1", Subject: strings.Repeat("日", 1000),
		}, []byte(`{"detection":{}}`))
		require.NoError(t, err)
		s := open(t, webhook.Options{URL: url, Mode: transform.Binary})
		err = s.Send(t.Context(), []transform.Event{e})
		if want := "the header field ce-subject has 9014 bytes; servers accept at most 8192"; err == nil || !strings.Contains(err.Error(), want) || len(received()) != 0 {
			t.Errorf("error %v, %d requests", err, len(received()))
		}
		assert.NoError(t, open(t, webhook.Options{URL: url}).Send(t.Context(), []transform.Event{e}), "in structured mode")
	})
}

func TestHeadersTooLargeForServersAreRejected(t *testing.T) {
	many := make(map[string]string)
	for i := range 3 {
		many[fmt.Sprintf("X-%d", i)] = strings.Repeat("s3cret", 1000)
	}
	for _, test := range []struct {
		name    string
		options webhook.Options
		want    string
	}{
		{"a field", webhook.Options{Headers: map[string]string{"X-Y": strings.Repeat("s3cret", 2000)}}, "the header field X-Y has 12007 bytes; servers accept at most 8192"},
		{"a token", webhook.Options{Bearer: strings.Repeat("s3cret", 2000)}, "the header field Authorization has"},
		{"all of them together", webhook.Options{Headers: many}, "; servers accept at most 16384"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.options.URL = "https://hooks.example"
			_, err := webhook.New(test.options)
			assert.True(t, err != nil && strings.Contains(err.Error(), test.want) && !strings.Contains(err.Error(), "s3cret"), err, "want one with", test.want)
		})
	}
}
