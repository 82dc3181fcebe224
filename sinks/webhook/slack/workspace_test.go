package slack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"ndrbridge/test/presettest"
)

// workspace answers as Slack's Web API does: it knows its messages by channel and ts,
// and lets a bot edit its own alone.
type workspace struct {
	channels map[string]string // by name: the id
	messages []*posting
	calls    []string
	// fixed means that messages can no longer be edited; fault is the next error.
	fixed bool
	fault string
}

type posting struct {
	ts, channel, bot, thread string
	deleted                  bool
	body                     []byte
}

func newWorkspace() *workspace {
	return &workspace{channels: map[string]string{"#soc": "C1", "#noc": "C2", "C1": "C1", "C2": "C2"}}
}

func (w *workspace) answer(r presettest.Request) presettest.Reply {
	said, err := w.call(strings.TrimPrefix(r.Path, "/api/"), r.Header.Get("Authorization"), r.Body)
	if err != "" {
		said = object{"ok": false, "error": err}
	}
	body, _ := json.Marshal(said)
	return presettest.Reply{Status: http.StatusOK, Body: string(body)}
}

func (w *workspace) call(method, bot string, body []byte) (said object, err string) {
	var m struct {
		Channel string
		TS      string
		Thread  string `json:"thread_ts"`
	}
	if json.Unmarshal(body, &m) != nil || check(body) != nil {
		return nil, "invalid_blocks"
	}
	if fault := w.fault; fault != "" {
		w.fault = ""
		return nil, fault
	}
	switch method {
	case "chat.postMessage":
		return w.post(bot, m.Channel, m.Thread, body)
	case "chat.update":
		return w.update(bot, m.Channel, m.TS, body)
	}
	return nil, "unknown_method"
}

func (w *workspace) post(bot, channel, thread string, body []byte) (object, string) {
	id := w.channels[channel]
	if id == "" {
		return nil, "channel_not_found"
	}
	call := "post"
	if thread != "" {
		n, parent := w.find(id, thread)
		switch {
		case parent == nil:
			return nil, "thread_not_found"
		case parent.deleted:
			thread = ""
		default:
			call = fmt.Sprintf("reply %d as", n)
		}
	}
	p := &posting{ts: fmt.Sprintf("1773480000.%06d", len(w.messages)+1), channel: id, bot: bot, thread: thread, body: body}
	w.messages = append(w.messages, p)
	w.calls = append(w.calls, fmt.Sprintf("%s %d", call, len(w.messages)))
	message := object{"ts": p.ts, "type": "message"}
	if thread != "" {
		message["thread_ts"] = thread
	}
	return object{"ok": true, "channel": id, "ts": p.ts, "message": message}, ""
}

func (w *workspace) update(bot, channel, ts string, body []byte) (object, string) {
	if w.channels[channel] != channel {
		return nil, "channel_not_found" // it takes ids alone
	}
	n, p := w.find(channel, ts)
	switch {
	case p == nil || p.deleted:
		return nil, "message_not_found"
	case p.bot != bot:
		return nil, "cant_update_message"
	case w.fixed:
		return nil, "edit_window_closed"
	}
	p.body = body
	w.calls = append(w.calls, fmt.Sprintf("edit %d", n))
	return object{"ok": true, "channel": channel, "ts": ts, "text": "", "message": object{"type": "message"}}, ""
}

// find counts messages from 1.
func (w *workspace) find(channel, ts string) (int, *posting) {
	for i, p := range w.messages {
		if p.channel == channel && p.ts == ts {
			return i + 1, p
		}
	}
	return 0, nil
}

// took is what the bots did since it was asked last.
func (w *workspace) took() string {
	calls := strings.Join(w.calls, ", ")
	w.calls = nil
	return calls
}
