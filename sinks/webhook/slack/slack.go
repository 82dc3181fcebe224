// Package slack posts cards to a channel of Slack, by an incoming webhook or as a
// bot, which edits them later on.
package slack

import (
	"errors"
	"net/url"
	"path"
	"strings"

	"github.com/go-json-experiment/json"

	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/card"
	"ndrbridge/transform"
)

// Updates say what a bot does with later versions of a detection that has a message.
type Updates string

// What Updates can be.
const (
	// Edit edits the message.
	Edit Updates = "edit"
	// Thread replies in the message's thread, and edits the message when the detection
	// is closed, or is no longer.
	Thread Updates = "thread"
	// Post posts another message.
	Post Updates = "post"
)

// Options say how a channel is reached.
type Options struct {
	// URL is that of a bot's methods: https://slack.com/api, or with one of them
	// behind it, as chat.postMessage. It goes with Token.
	URL string
	// Token is a bot's token; empty: the messages are for an incoming webhook.
	Token string
	// Channel is where a bot posts: the channel's id, or its name. It goes with
	// Token.
	Channel string
	// Updates go with Token; empty: Edit.
	Updates Updates
}

// Preset posts a message for every Send, or a few. Up to card.Few events have a
// card each in it, as far as they fit; more are one summary.
//
// A bot posts a message of its own for each detection, which it remembers, but for
// Post: see Updates. More than card.Few events that come at once and are of none
// with a message are one summary, too, which is nobody's message: the next version
// of each of them is posted.
//
// A version that is delivered again on request, and is older than the one that a
// message shows, never takes its place: it is a reply in the message's thread. A message that is gone, or can be edited no more, is posted
// again.
type Preset struct {
	o            Options
	post, update *url.URL // nil: the webhook's own
}

var _ webhook.Remembering = (*Preset)(nil)

// New makes a preset. The error tells the option that is wrong, without its value.
func New(o Options) (*Preset, error) {
	switch {
	case o.Token == "" && o.Channel != "":
		return nil, errors.New("slack: a channel is named, but no bot's token: an incoming webhook has its own channel")
	case o.Token == "" && o.Updates != "":
		return nil, errors.New("slack: updates, but no bot's token: an incoming webhook cannot change what it posted")
	case o.Token != "" && o.Channel == "":
		return nil, errors.New("slack: a bot's token is given, but no channel")
	}
	p := &Preset{o: o}
	if o.Token == "" {
		return p, nil
	}
	switch o.Updates {
	case "":
		p.o.Updates = Edit
	case Edit, Thread, Post:
	default:
		return nil, errors.New("slack: updates are none of edit, thread, post")
	}
	base, err := url.Parse(o.URL)
	if err != nil || base.Hostname() == "" {
		return nil, errors.New("slack: url is not that of a bot's methods, such as https://slack.com/api/chat.postMessage")
	}
	base.User = nil
	base = base.JoinPath("/") // a path that is empty would stay relative
	if strings.HasPrefix(path.Base(base.Path), "chat.") {
		base = base.JoinPath("..")
	}
	p.post, p.update = base.JoinPath("chat.postMessage"), base.JoinPath("chat.update")
	return p, nil
}

// Service keeps to the one message a second and channel that Slack takes, from
// webhooks and bots alike. Edits, of which it takes some fifty a minute, are slowed
// down with them.
func (p *Preset) Service() webhook.Service {
	s := webhook.Service{
		Header:            map[string]string{"Content-Type": "application/json; charset=utf-8"},
		RequestsPerSecond: 1,
		Undivided:         true, // one summary of a burst, not several
	}
	if p.o.Token != "" {
		s.Header["Authorization"] = "Bearer " + p.o.Token
	}
	return s
}

// Compose makes a message of the events as if they were the first.
func (p *Preset) Compose(events []transform.Event) (webhook.Request, error) {
	return p.ComposeKnowing(events, make([][]byte, len(events)))
}

// together makes one message of as many events as fit, which is not remembered.
func (p *Preset) together(events []transform.Event) (webhook.Request, error) {
	m := message{Channel: p.o.Channel}
	n := len(events)
	cards := card.OfAll(events)
	if fit := m.addAll(cards); fit < len(cards) {
		n = fit
	}
	return encode(m, webhook.Request{Events: n, URL: p.post})
}

// encode gives a request its body.
func encode(body any, r webhook.Request) (webhook.Request, error) {
	var err error
	if r.Body, err = json.Marshal(body); err != nil {
		return webhook.Request{}, sinks.Unsendable("encode the message: %w", err)
	}
	return r, nil
}
