package slack

import (
	"encoding/json"
	"time"

	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/card"
	"ndrbridge/transform"
)

// posted is what is remembered of a detection's message, in JSON.
type posted struct {
	Channel string `json:"channel"` // its id
	TS      string `json:"ts"`      // the message's name in the channel
	// In is the channel as it was configured: where another is, the detection has no
	// message there.
	In string `json:"in"`
	// Version and Recorded are the time of the version that was sent last, and when it
	// was seen, which reports whether one that is delivered again came before it.
	Version  time.Time `json:"version"`
	Recorded time.Time `json:"recorded"`
	// Closed says that the message shows the detection as closed.
	Closed bool `json:"closed,omitempty"`
}

// task is what a request of a bot does with an event.
type task struct {
	event transform.Event
	kind  kind
	to    posted // what is edited or replied to
	// replies says that a reply follows the edit.
	replies bool
}

type kind int

const (
	posts kind = iota
	edits
	repliesTo
)

// Key is that of a detection, if its messages are remembered.
func (p *Preset) Key(e transform.Event) string {
	if p.o.Token == "" || p.o.Updates == Post {
		return ""
	}
	return webhook.DetectionKey(e)
}

// message returns what is remembered of a detection's message. What cannot be read
// is as if it were forgotten.
func (p *Preset) message(known []byte) (m posted, there bool) {
	if known == nil || json.Unmarshal(known, &m) != nil {
		return posted{}, false
	}
	return m, m.TS != "" && m.In == p.o.Channel
}

// newer reports whether a message shows a newer version than an event's. What comes
// in the order of the journal is always the newest: a mod_time can go back. Of an event
// that is delivered again, apart from that order, the time when it was seen decides.
func (m posted) newer(e transform.Event) bool {
	return e.Redelivered && (m.Recorded.After(e.RecordedTime) || m.Recorded.Equal(e.RecordedTime) && m.Version.After(e.Time))
}

// ComposeKnowing edits the message of the first event's detection, or replies to it.
// Where it has none, it posts one: of the first event, or of all that have none.
func (p *Preset) ComposeKnowing(events []transform.Event, known [][]byte) (webhook.Request, error) {
	first := events[0]
	if m, there := p.message(known[0]); there {
		return p.follow(first, m)
	}
	untracked, of := p.untracked(events, known)
	if of > card.Few {
		return p.together(events[:untracked])
	}
	if p.Key(first) != "" {
		return p.do(task{event: first, kind: posts})
	}
	n := 1
	for n < untracked && p.Key(events[n]) == "" {
		n++
	}
	return p.together(events[:n])
}

// untracked counts the leading events that are of no detection with a message, and
// how many things they are of: a detection is one, however many versions it has.
func (p *Preset) untracked(events []transform.Event, known [][]byte) (n, of int) {
	seen := make(map[string]bool)
	for i, e := range events {
		if _, there := p.message(known[i]); there {
			break
		}
		n++
		if key := p.Key(e); key == "" || !seen[key] {
			seen[key] = true
			of++
		}
	}
	return n, of
}

// follow does with a version of a detection that has a message what is configured.
func (p *Preset) follow(e transform.Event, m posted) (webhook.Request, error) {
	t := task{event: e, kind: edits, to: m}
	switch {
	case m.newer(e):
		t.kind = repliesTo
	case p.o.Updates == Thread:
		// The edit comes first: it can be done again if the reply fails.
		t.replies = true
		if !m.Closed && !closed(e) {
			t.kind = repliesTo
		}
	}
	return p.do(t)
}

// do makes the request of a task.
func (p *Preset) do(t task) (webhook.Request, error) {
	c := card.Of(t.event)
	r := webhook.Request{Events: 1, URL: p.post, About: t}
	m := message{Channel: p.o.Channel}
	switch t.kind {
	case edits:
		m.add(c)
		r.URL = p.update
		return encode(edit{Channel: t.to.Channel, TS: t.to.TS, Text: m.Text, Parse: m.Parse, Blocks: m.Blocks}, r)
	case repliesTo:
		m.Channel, m.Thread = t.to.Channel, t.to.TS
		if t.to.newer(t.event) {
			c.Note += "; an earlier version than the one above"
		}
	}
	m.add(c)
	return encode(m, r)
}

// closed reports whether an event shows its detection as closed.
func closed(e transform.Event) bool { return card.Of(e).Status == "closed" }

// Learn remembers the message that a version has now.
func (p *Preset) Learn(r webhook.Request, a webhook.Answer) map[string][]byte {
	said := read(a)
	t, ok := r.About.(task)
	if !ok || !said.OK {
		return nil
	}
	m := posted{
		Channel: t.to.Channel, TS: t.to.TS, In: p.o.Channel,
		Version: t.event.Time, Recorded: t.event.RecordedTime, Closed: t.to.Closed,
	}
	// Slack puts a reply to a message that was deleted into the channel, as one that
	// begins a thread of its own.
	alone := t.kind == repliesTo && said.Message.TS != "" && said.Message.Thread != t.to.TS
	switch {
	case t.kind == posts || alone:
		m.Channel, m.TS, m.Closed = said.Channel, said.TS, closed(t.event)
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
		return nil // a year beyond 9999: the next version is posted again
	}
	return map[string][]byte{p.Key(t.event): value}
}
