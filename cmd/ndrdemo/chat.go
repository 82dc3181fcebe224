package main

import (
	_ "embed"
	"encoding/json"
	"html/template"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
)

//go:embed chat.html
var chatPage string

// chat accepts messages like an incoming webhook of Slack, and shows the latest of them
// in a browser. It is safe for concurrent use.
type chat struct {
	page *template.Template

	mu    sync.Mutex
	last  []message // newest first
	count chatCount
}

// chatCount counts what a chat has received.
type chatCount struct{ messages, cards int }

func newChat() *chat {
	return &chat{page: template.Must(template.New("chat").Parse(chatPage))}
}

// counted returns what has been received up to now.
func (c *chat) counted() chatCount {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// ServeHTTP accepts a message that is posted, and serves the page of messages.
func (c *chat) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		c.show(w)
		return
	}
	const kept = 50
	var m message
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil || len(m.Blocks) == 0 {
		http.Error(w, "invalid_payload", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count.messages++
	for _, b := range m.Blocks {
		if b.Type == "header" { // each card begins with one
			c.count.cards++
		}
	}
	c.last = slices.Insert(c.last, 0, m)
	c.last = c.last[:min(len(c.last), kept)]
	_, _ = io.WriteString(w, "ok")
}

func (c *chat) show(w http.ResponseWriter) {
	c.mu.Lock()
	now := struct {
		Messages []message
		Count    int
	}{slices.Clone(c.last), c.count.messages}
	c.mu.Unlock()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	_ = c.page.Execute(w, now) // fails only if the browser is gone
}

// message is a Block Kit message, as far as cards need it.
type message struct {
	Blocks []struct {
		Type     string
		Text     text
		Fields   []text
		Elements []struct {
			Text text
			URL  string
		}
	}
}

type text struct{ Text string }

// String returns the text as it is displayed.
func (t text) String() string {
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(t.Text)
}
