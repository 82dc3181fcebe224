package bridge_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"ndrbridge/test/require"
)

// chat is a server that accepts the posts of a bot with the right token.
type chat struct {
	mu     sync.Mutex
	token  string
	bodies []string
	tokens map[string]bool // that were shown
}

func (c *chat) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	shown := r.Header.Get("Authorization")
	c.tokens[shown] = true
	if shown != "Bearer "+c.token {
		_, _ = io.WriteString(w, `{"ok": false, "error": "invalid_auth"}`)
		return
	}
	c.bodies = append(c.bodies, string(body))
	_, _ = io.WriteString(w, `{"ok": true}`)
}

func (c *chat) posts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.bodies)
}

func (c *chat) saw(token string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tokens["Bearer "+token]
}

func TestASinkWithAPresetSendsToItsService(t *testing.T) {
	_, url := startAppliance(t, 40)
	service := &chat{token: "xoxb-new", tokens: make(map[string]bool)}
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	key := filepath.Join(t.TempDir(), "key")
	writeKey := func(token string) {
		require.NoError(t, os.WriteFile(key, []byte(token+"\n"), 0o600))
	}
	writeKey("xoxb-old")
	r := run(t, configuration(t, url, `  - {name: chat, probe: 20ms, retry: {initial: 10ms, max: 50ms}, webhook: {preset: slack, url: "`+server.URL+`", channel: C1, key_file: "`+key+`"}}`))
	await(t, "the old token is refused", func() bool { return service.saw("xoxb-old") })
	writeKey("xoxb-new")
	await(t, "the bot posts with the token that took its place", func() bool { return service.posts() > 0 })
	r.stop()
	var message struct {
		Channel string
		Blocks  []json.RawMessage
	}
	if err := json.Unmarshal([]byte(service.bodies[0]), &message); err != nil || message.Channel != "C1" || len(message.Blocks) == 0 {
		t.Errorf("%v: %s", err, service.bodies[0])
	}
	if strings.Contains(r.log.String(), "xoxb") {
		t.Error("the log shows a token")
	}
}
