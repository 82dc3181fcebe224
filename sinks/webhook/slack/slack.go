// Package slack posts cards to a Slack channel, by an incoming webhook or as a bot, which
// can update them later.
package slack

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/card"
	"ndrbridge/transform"
)

// The values of the setting Updates: how a bot shows later versions of a detection that has
// a message.
const (
	// Edit edits the message.
	Edit = "edit"
	// Thread replies in the message's thread, and edits the message when the detection
	// is closed or reopened.
	Thread = "thread"
	// Post posts a new message.
	Post = "post"
)

// Preset posts one message for each Send, or several if the cards do not fit into one.
// Up to card.Few events have a card each; more are combined into one summary.
//
// A bot posts a message for each detection and remembers it, unless Updates is Post.
// More than card.Few events at once without messages are combined into a summary, too,
// which is not remembered: the next version of each detection is posted as a new
// message.
//
// A redelivered version that is older than the one shown never replaces it: it is
// posted as a reply in the message's thread. If the message was deleted or can no
// longer be edited, a new one is posted.
type Preset struct {
	s            webhook.PresetSettings
	post, update *url.URL // nil for an incoming webhook
}

var _ webhook.StatefulPreset = (*Preset)(nil)

// New returns a Preset. With a Key, which is a bot's token, URL is the base of the Web API's
// methods, https://slack.com/api, or one of the methods, and Channel is required; Updates is
// one of the constants, Edit if empty. Without, it posts by an incoming webhook and has
// neither. The error names the faulty setting, without its value.
func New(s webhook.PresetSettings) (*Preset, error) {
	if found := checkSettings(s); len(found) > 0 {
		return nil, fmt.Errorf("slack: %s %s", found[0].Key, found[0].Problem)
	}
	if s.Key == "" {
		return &Preset{}, nil
	}
	s.Updates = cmp.Or(s.Updates, Edit)
	if !slices.Contains([]string{Edit, Thread, Post}, s.Updates) {
		return nil, errors.New("slack: updates is not edit, thread or post")
	}
	base, err := url.Parse(s.URL)
	if err != nil || base.Hostname() == "" {
		return nil, errors.New("slack: url is not that of a Web API method, such as https://slack.com/api/chat.postMessage")
	}
	base.User = nil
	base = base.JoinPath("/") // an empty path would stay relative
	if strings.HasPrefix(path.Base(base.Path), "chat.") {
		base = base.JoinPath("..")
	}
	return &Preset{s: s, post: base.JoinPath("chat.postMessage"), update: base.JoinPath("chat.update")}, nil
}

// Service limits the rate to the one message per second and channel that Slack accepts
// from webhooks and bots. It also applies to edits, of which Slack accepts about fifty
// a minute.
func (p *Preset) Service() webhook.Service {
	s := webhook.Service{
		Header:            map[string]string{"Content-Type": "application/json; charset=utf-8"},
		RequestsPerSecond: 1,
		Undivided:         true, // one summary of a burst, not several
	}
	if p.s.Key != "" {
		s.Header["Authorization"] = "Bearer " + p.s.Key
	}
	return s
}

// Compose returns one message for the events as if none were remembered.
func (p *Preset) Compose(events []transform.Event) (webhook.Request, error) {
	return p.ComposeWithMemory(events, make([][]byte, len(events)))
}

// composeTogether returns one message with as many events as fit; it is not remembered.
func (p *Preset) composeTogether(events []transform.Event) (webhook.Request, error) {
	m := message{Channel: p.s.Channel}
	n := len(events)
	for i, c := range card.OfAll(events) {
		longer := m
		longer.add(c)
		if longer.length() > maxBlocks && i > 0 { // a single card always fits
			n = i
			break
		}
		m = longer
	}
	return encode(m, webhook.Request{Events: n, URL: p.post})
}

// encode sets the body of a request.
func encode(body any, r webhook.Request) (webhook.Request, error) {
	var err error
	if r.Body, err = json.Marshal(body); err != nil {
		return webhook.Request{}, failure.Unsendable("encode the message: %w", err)
	}
	return r, nil
}
