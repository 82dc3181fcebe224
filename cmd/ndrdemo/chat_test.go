package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/slack"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

func TestChat(t *testing.T) {
	t.Run("it shows the cards of what a sink posts", func(t *testing.T) {
		c := newChat()
		server := httptest.NewServer(c)
		t.Cleanup(server.Close)
		preset := require.Value(slack.Spec().Open(webhook.PresetSettings{}))(t)
		sink := require.Value(webhook.New(webhook.Options{URL: server.URL, Preset: preset}))(t)
		t.Cleanup(func() { sink.Close() })
		events := []transform.Event{
			titled(t, 1, "Port Scan & more"),
			titled(t, 2, "<script>alert(1)</script>"),
		}
		require.NoError(t, sink.Send(t.Context(), events))
		assert.Equal(t, c.counted(), chatCount{messages: 1, cards: 2}, "counted")
		answer := require.Value(http.Get(server.URL))(t)
		defer answer.Body.Close()
		page := require.Value(io.ReadAll(answer.Body))(t)
		for _, want := range []string{"Port Scan &amp; more</h2>", "&lt;script&gt;alert(1)&lt;/script&gt;</h2>", "<hr>", `<a href="https://sensor.example/1"`} {
			assert.Contains(t, string(page), want, "the page lacks")
		}
		assert.NotContains(t, string(page), "<script", "the page runs what others wrote")
		assert.Contains(t, answer.Header.Get("Content-Security-Policy"), "default-src 'none'", "the page runs what others wrote")
	})
	t.Run("it keeps the last messages, and counts all", func(t *testing.T) {
		c := newChat()
		for i := range 60 {
			answer := post(c, fmt.Sprintf(`{"text": "n", "blocks": [{"type": "header", "text": {"type": "plain_text", "text": "number %d."}}]}`, i))
			require.Equal(t, answer.Code, http.StatusOK, answer.Body, "answered")
			require.Equal(t, answer.Body.String(), "ok", answer.Body)
		}
		page := httptest.NewRecorder()
		c.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/", nil))
		text := page.Body.String()
		newest, older := strings.Index(text, "number 59."), strings.Index(text, "number 10.")
		assert.True(t, newest >= 0 && older >= newest && !strings.Contains(text, "number 9."), "the page shows", text)
		assert.Equal(t, c.counted(), chatCount{messages: 60, cards: 60}, "counted")
	})

	t.Run("it refuses anything but a message", func(t *testing.T) {
		for _, body := range []string{"text=x", `{"text": "x"}`} {
			c := newChat()
			answer := post(c, body)
			assert.True(t, answer.Code == http.StatusBadRequest && c.counted() == (chatCount{}), "answered", answer.Code, "to", body)
		}
	})
}

func post(c *chat, body string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	answer := httptest.NewRecorder()
	c.ServeHTTP(answer, request)
	return answer
}

// titled is an event of a detection with a title and a link.
func titled(t *testing.T, id int, title string) transform.Event {
	t.Helper()
	e, err := transform.New(transform.Attributes{
		ID: fmt.Sprintf("%d-1", id), Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection.created", Subject: fmt.Sprint(id),
	}, fmt.Appendf(nil, `{"detection":{"id":%d,"mod_time":1,"risk_score":91,"title":%q,"url":"https://sensor.example/%d"}}`, id, title, id))
	require.NoError(t, err)
	return e
}
