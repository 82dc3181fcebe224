package bridge_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// channel is a channel of Slack that a bot posts to.
type channel struct {
	url string

	mu    sync.Mutex
	calls []string // the method, and the message's ts
}

func startChannel(t *testing.T) *channel {
	t.Helper()
	c := new(channel)
	posted := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct{ TS string }
		body, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(body, &m) != nil {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if strings.HasSuffix(r.URL.Path, "/chat.postMessage") {
			posted++
			m.TS = fmt.Sprint(posted)
		}
		c.calls = append(c.calls, r.URL.Path+" "+m.TS)
		fmt.Fprintf(w, `{"ok": true, "channel": "C1", "ts": %q}`, m.TS)
	}))
	t.Cleanup(s.Close)
	c.url = s.URL
	return c
}

func (c *channel) got() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

func TestAMessageIsEditedByTheBridgeThatFollowsACrash(t *testing.T) {
	a, url := startAppliance(t, 1)
	chat := startChannel(t)
	yaml := configuration(t, url, `  - {name: chat, webhook: {preset: slack, url: "`+chat.url+`/api", channel: C1, key: xoxb-1}}`)
	r := run(t, yaml)
	await(t, "the detection's message", func() bool { return len(chat.got()) == 1 })
	await(t, "the sink's cursor", func() bool { return sinkStatus(t, r.control(t), "chat").LagEvents == 0 })
	// A copy of the disk at some moment is what a crash at that moment leaves.
	var left bytes.Buffer
	require.NoError(t, r.control(t).Backup(t.Context(), &left))
	r.stop()
	path := filepath.Join(t.TempDir(), "left.db")
	require.NoError(t, os.WriteFile(path, left.Bytes(), 0o600))

	require.NoError(t, a.Update(func(d *standin.Detection) { d.Title = "Another title" }, a.Latest()[0].ID))
	r = run(t, strings.Replace(yaml, statePath(t, yaml), path, 1))
	await(t, "the edit", func() bool { return len(chat.got()) >= 2 })
	r.stop()
	assert.EqualSlices(t, chat.got(), []string{"/api/chat.postMessage 1", "/api/chat.update 1"}, "the bot did")
}
