package slack

import (
	"context"
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

// converse edits the message of the first event's detection, or replies to it. If there is no
// message it posts one: of the first event, or of all leading events without one.
func (p *preset) converse(ctx context.Context, c *webhook.Conversation, events []transform.Event) (int, error) {
	if m, found := p.message(c.Known(0)); found {
		return 1, p.follow(ctx, c, events[0], m)
	}
	together := p.together(events, func(i int) bool {
		_, found := p.message(c.Known(i))
		return found
	})
	if together == 0 {
		return 1, p.begin(ctx, c, events[0])
	}
	r, err := p.composeTogether(events[:together])
	if err != nil {
		return 1, err
	}
	_, err = ask(ctx, c, r)
	return r.Events, err
}

// together counts the leading events that one message is for, because they are many or not
// remembered; 0 means that the first has a message of its own. has reports whether the detection
// of an event has a message.
func (p *preset) together(events []transform.Event, has func(i int) bool) int {
	untracked, subjects := 0, 0 // all versions of a detection are one subject
	seen := make(map[string]bool)
	for untracked < len(events) && !has(untracked) {
		if key := p.key(events[untracked]); key == "" || !seen[key] {
			seen[key] = true
			subjects++
		}
		untracked++
	}
	if subjects > card.Few {
		return untracked
	}
	n := 0
	for n < untracked && p.key(events[n]) == "" {
		n++
	}
	return n
}

// begin posts a message for an event, and remembers it. That of a follow-up is not remembered:
// the next version must not replace it.
func (p *preset) begin(ctx context.Context, c *webhook.Conversation, e transform.Event) error {
	r, err := p.composePost(e)
	if err != nil {
		return err
	}
	reply, err := ask(ctx, c, r)
	if err != nil || reply.Channel == "" || reply.TS == "" {
		return err
	}
	return p.remember(ctx, c, e, posted{Channel: reply.Channel, TS: reply.TS, Closed: closed(e)})
}

// follow edits the detection's message, or replies to it, as configured, or does both. The message
// shows the last version, so a follow-up is always a reply. If the message is lost, the event has
// a new one.
func (p *preset) follow(ctx context.Context, c *webhook.Conversation, e transform.Event, m posted) error {
	shown := m.newer(e) || e.IsFollowUp() // the message is not to show e
	inThread := p.s.Updates == thread
	if !shown && (!inThread || m.Closed || closed(e)) {
		// The edit is first: it can be repeated if the reply fails.
		r, err := p.composeEdit(e, m)
		if err != nil {
			return err
		}
		reply, err := ask(ctx, c, r)
		if reply.lost() {
			return p.begin(ctx, c, e)
		}
		m.Closed = closed(e)
		if err == nil {
			err = p.remember(ctx, c, e, m)
		}
		if err != nil || !inThread {
			return err
		}
	}
	r, err := p.composeReply(e, m)
	if err != nil {
		return err
	}
	reply, err := ask(ctx, c, r)
	switch {
	case reply.lost():
		return p.begin(ctx, c, e)
	case err != nil:
		return err
	case reply.Message.TS != "" && reply.Message.Thread != m.TS:
		// Slack posts a reply to a deleted message to the channel, as a new thread.
		if reply.Channel == "" || reply.TS == "" {
			return nil
		}
		m.Channel, m.TS, m.Closed = reply.Channel, reply.TS, closed(e)
	case shown:
		return nil
	}
	return p.remember(ctx, c, e, m)
}

// composePost returns the request that posts a message for an event.
func (p *preset) composePost(e transform.Event) (webhook.Request, error) {
	m := message{Channel: p.s.Channel}
	m.add(card.Of(e))
	return webhook.Request{Events: 1, URL: p.post}.EncodeJSON(m)
}

// composeEdit returns the request that makes a message show an event.
func (p *preset) composeEdit(e transform.Event, to posted) (webhook.Request, error) {
	var m message
	m.add(card.Of(e))
	return webhook.Request{Events: 1, URL: p.update}.EncodeJSON(content{Channel: to.Channel, TS: to.TS, Text: m.Text, Parse: m.Parse, Blocks: m.Blocks})
}

// composeReply returns the request that replies to a message.
func (p *preset) composeReply(e transform.Event, to posted) (webhook.Request, error) {
	c := card.Of(e)
	if to.newer(e) && !e.IsFollowUp() {
		c.Note += "; this is an earlier version than the one above"
	}
	m := message{Channel: to.Channel, Thread: to.TS}
	m.add(c)
	return webhook.Request{Events: 1, URL: p.post}.EncodeJSON(m)
}

// closed reports whether an event shows its detection as closed.
func closed(e transform.Event) bool { return card.Of(e).Status == "closed" }

// remember stores the message that shows an event's version, unless it is a follow-up.
func (p *preset) remember(ctx context.Context, c *webhook.Conversation, e transform.Event, m posted) error {
	if e.IsFollowUp() {
		return nil
	}
	m.In, m.Version, m.Recorded = p.s.Channel, e.Time, e.RecordedTime
	value, err := json.Marshal(m)
	if err != nil {
		return nil // a year beyond 9999: the next version is posted as a new message
	}
	return c.Remember(ctx, map[string][]byte{p.key(e): value})
}
