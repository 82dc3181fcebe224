// Package slack posts cards to a Slack channel, by an incoming webhook or as a bot, which
// can update them later.
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

// Updates selects how a bot shows later versions of a detection that has a message.
type Updates string

// The values of Updates.
const (
	// Edit edits the message.
	Edit Updates = "edit"
	// Thread replies in the message's thread, and edits the message when the detection
	// is closed or reopened.
	Thread Updates = "thread"
	// Post posts a new message.
	Post Updates = "post"
)

// Options configure a Preset.
type Options struct {
	// URL is the base of the Web API's methods, https://slack.com/api, or one of the
	// methods, such as chat.postMessage. It is used with Token only.
	URL string
	// Token is a bot's token; empty means an incoming webhook.
	Token string
	// Channel is the channel's id or name. It is required with Token and not allowed
	// without.
	Channel string
	// Updates is used with Token only; empty means Edit.
	Updates Updates
}

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
	o            Options
	post, update *url.URL // nil for an incoming webhook
}

var _ webhook.StatefulPreset = (*Preset)(nil)

// New returns a Preset. The error names the faulty option, without its value.
func New(o Options) (*Preset, error) {
	switch {
	case o.Token == "" && o.Channel != "":
		return nil, errors.New("slack: a channel without a bot token: an incoming webhook has its own channel")
	case o.Token == "" && o.Updates != "":
		return nil, errors.New("slack: updates without a bot token: an incoming webhook cannot change its messages")
	case o.Token != "" && o.Channel == "":
		return nil, errors.New("slack: a bot token without a channel")
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
		return nil, errors.New("slack: updates is not edit, thread or post")
	}
	base, err := url.Parse(o.URL)
	if err != nil || base.Hostname() == "" {
		return nil, errors.New("slack: url is not that of a Web API method, such as https://slack.com/api/chat.postMessage")
	}
	base.User = nil
	base = base.JoinPath("/") // an empty path would stay relative
	if strings.HasPrefix(path.Base(base.Path), "chat.") {
		base = base.JoinPath("..")
	}
	p.post, p.update = base.JoinPath("chat.postMessage"), base.JoinPath("chat.update")
	return p, nil
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
	if p.o.Token != "" {
		s.Header["Authorization"] = "Bearer " + p.o.Token
	}
	return s
}

// Compose returns one message for the events as if none were remembered.
func (p *Preset) Compose(events []transform.Event) (webhook.Request, error) {
	return p.ComposeWithMemory(events, make([][]byte, len(events)))
}

// composeTogether returns one message with as many events as fit; it is not remembered.
func (p *Preset) composeTogether(events []transform.Event) (webhook.Request, error) {
	m := message{Channel: p.o.Channel}
	n := len(events)
	cards := card.OfAll(events)
	if fit := m.addAll(cards); fit < len(cards) {
		n = fit
	}
	return encode(m, webhook.Request{Events: n, URL: p.post})
}

// encode sets the body of a request.
func encode(body any, r webhook.Request) (webhook.Request, error) {
	var err error
	if r.Body, err = json.Marshal(body); err != nil {
		return webhook.Request{}, sinks.Unsendable("encode the message: %w", err)
	}
	return r, nil
}
