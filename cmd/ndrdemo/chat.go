package main

import (
	_ "embed"
	"encoding/json"
	"html/template"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"unicode/utf16"
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
	switch r.Method {
	case http.MethodPost:
		c.take(w, r)
	case http.MethodGet, http.MethodHead:
		c.show(w)
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		http.Error(w, "method_not_allowed", http.StatusMethodNotAllowed)
	}
}

func (c *chat) take(w http.ResponseWriter, r *http.Request) {
	const (
		most = 1 << 20
		kept = 50
	)
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	var m message
	if err != nil || kind != "application/json" || json.Unmarshal(body, &m) != nil || m.Text == "" {
		http.Error(w, "invalid_payload", http.StatusBadRequest)
		return
	}
	if !m.valid() {
		http.Error(w, "invalid_blocks", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count.messages++
	c.count.cards += m.cards()
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
	Text   string
	Blocks []block
}

type block struct {
	Type     string
	Text     text
	Fields   []text
	Elements []struct {
		Type string
		Text text
		URL  string
	}
}

type text struct{ Type, Text string }

// String returns the text as it is displayed.
func (t text) String() string {
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(t.Text)
}

func (t text) within(most int) bool {
	return t.Type == "plain_text" && t.Text != "" && len(utf16.Encode([]rune(t.Text))) <= most
}

// valid reports whether a message conforms to Slack's reference of blocks.
func (m message) valid() bool {
	const most = 50
	return len(m.Blocks) > 0 && len(m.Blocks) <= most && !slices.ContainsFunc(m.Blocks, func(b block) bool { return !b.valid() })
}

func (b block) valid() bool {
	const maxHeader, maxText, maxField, maxFields, maxButton = 150, 3000, 2000, 10, 75
	switch b.Type {
	case "divider":
		return true
	case "header":
		return b.Text.within(maxHeader)
	case "section":
		if b.Text == (text{}) && len(b.Fields) == 0 || b.Text != (text{}) && !b.Text.within(maxText) {
			return false
		}
		return len(b.Fields) <= maxFields && !slices.ContainsFunc(b.Fields, func(t text) bool { return !t.within(maxField) })
	case "actions":
		for _, e := range b.Elements {
			if e.Type != "button" || !e.Text.within(maxButton) {
				return false
			}
		}
		return len(b.Elements) > 0
	}
	return false
}

// cards returns the number of cards in a message. Each card begins with a header.
func (m message) cards() (n int) {
	for _, b := range m.Blocks {
		if b.Type == "header" {
			n++
		}
	}
	return n
}
