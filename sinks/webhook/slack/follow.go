package slack

import (
	"encoding/json"
	"time"

	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/card"
	"ndrbridge/transform"
)

// posted is the remembered message of a detection, in JSON.
type posted struct {
	Channel string `json:"channel"` // the channel's id
	TS      string `json:"ts"`      // the message's id in the channel
	// In is the channel as configured: if the configuration changes, the detection has
	// no message in the new channel.
	In string `json:"in"`
	// Version and Recorded are the event time and the recorded time of the last version
	// sent. They decide whether a redelivered version is older.
	Version  time.Time `json:"version"`
	Recorded time.Time `json:"recorded"`
	// Closed means that the message shows the detection as closed.
	Closed bool `json:"closed,omitempty"`
}

// task is what a bot's request does with an event.
type task struct {
	event transform.Event
	kind  kind
	to    posted // the message to edit or reply to
	// replies means that a reply follows the edit.
	replies bool
}

type kind int

const (
	posts kind = iota
	edits
	repliesTo
)

// key returns the detection's key if its messages are remembered.
func (p *preset) key(e transform.Event) string {
	if p.s.Key == "" || p.s.Updates == post {
		return ""
	}
	return webhook.DetectionKey(e)
}

// message decodes the remembered message of a detection. found is false if there is
// none, it cannot be decoded, or it is in another channel.
func (p *preset) message(known []byte) (m posted, found bool) {
	if known == nil || json.Unmarshal(known, &m) != nil {
		return posted{}, false
	}
	return m, m.TS != "" && m.In == p.s.Channel
}

// newer reports whether the message shows a newer version than e. Events in journal
// order are always the newest, since mod_time can decrease. Redelivered events are out
// of that order and are compared by recorded time.
func (m posted) newer(e transform.Event) bool {
	return e.Redelivered && (m.Recorded.After(e.RecordedTime) || m.Recorded.Equal(e.RecordedTime) && m.Version.After(e.Time))
}

// composeWithMemory edits the message of the first event's detection, or replies to it.
// If there is no message it posts one: of the first event, or of all leading events
// without one.
func (p *preset) composeWithMemory(events []transform.Event, known [][]byte) (webhook.Request, error) {
	first := events[0]
	if m, found := p.message(known[0]); found {
		return p.follow(first, m)
	}
	untracked, subjects := p.untracked(events, known)
	if subjects > card.Few {
		return p.composeTogether(events[:untracked])
	}
	if p.key(first) != "" {
		return p.request(task{event: first, kind: posts})
	}
	n := 1
	for n < untracked && p.key(events[n]) == "" {
		n++
	}
	return p.composeTogether(events[:n])
}

// untracked counts the leading events whose detection has no message, and their
// subjects: all versions of a detection count as one.
func (p *preset) untracked(events []transform.Event, known [][]byte) (n, subjects int) {
	seen := make(map[string]bool)
	for i, e := range events {
		if _, found := p.message(known[i]); found {
			break
		}
		n++
		if key := p.key(e); key == "" || !seen[key] {
			seen[key] = true
			subjects++
		}
	}
	return n, subjects
}

// follow edits the detection's message, or replies to it, as configured. The message shows the last
// version, so a follow-up is always a reply.
func (p *preset) follow(e transform.Event, m posted) (webhook.Request, error) {
	t := task{event: e, kind: edits, to: m}
	switch {
	case m.newer(e), e.IsFollowUp():
		t.kind = repliesTo
	case p.s.Updates == thread:
		// The edit is first: it can be repeated if the reply fails.
		t.replies = true
		if !m.Closed && !closed(e) {
			t.kind = repliesTo
		}
	}
	return p.request(t)
}

// request returns the request for a task.
func (p *preset) request(t task) (webhook.Request, error) {
	c := card.Of(t.event)
	r := webhook.Request{Events: 1, URL: p.post, About: t}
	m := message{Channel: p.s.Channel}
	switch t.kind {
	case edits:
		m.add(c)
		r.URL = p.update
		return r.EncodeJSON(content{Channel: t.to.Channel, TS: t.to.TS, Text: m.Text, Parse: m.Parse, Blocks: m.Blocks})
	case repliesTo:
		m.Channel, m.Thread = t.to.Channel, t.to.TS
		if t.to.newer(t.event) && !t.event.IsFollowUp() {
			c.Note += "; this is an earlier version than the one above"
		}
	}
	m.add(c)
	return r.EncodeJSON(m)
}

// closed reports whether an event shows its detection as closed.
func closed(e transform.Event) bool { return card.Of(e).Status == "closed" }

// remember returns the message that shows the event's version. That of a follow-up is not
// remembered: the next version must not replace it.
func (p *preset) remember(r webhook.Request, a webhook.Answer) map[string][]byte {
	reply := read(a)
	t, ok := r.About.(task)
	if !ok || !reply.OK || t.event.IsFollowUp() {
		return nil
	}
	m := posted{
		Channel: t.to.Channel, TS: t.to.TS, In: p.s.Channel,
		Version: t.event.Time, Recorded: t.event.RecordedTime, Closed: t.to.Closed,
	}
	// Slack posts a reply to a deleted message to the channel, as a new thread.
	alone := t.kind == repliesTo && reply.Message.TS != "" && reply.Message.Thread != t.to.TS
	switch {
	case t.kind == posts || alone:
		m.Channel, m.TS, m.Closed = reply.Channel, reply.TS, closed(t.event)
		if m.Channel == "" || m.TS == "" {
			return nil
		}
	case t.kind == edits:
		m.Closed = closed(t.event)
	case t.to.newer(t.event):
		return nil
	}
	value, err := json.Marshal(m)
	if err != nil {
		return nil // a year beyond 9999: the next version is posted as a new message
	}
	return map[string][]byte{p.key(t.event): value}
}
