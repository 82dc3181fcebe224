// Package slack posts cards to a channel of Slack, by an incoming webhook or as a
// bot.
package slack

import (
	"errors"

	"github.com/go-json-experiment/json"

	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
	"ndrbridge/transform"
	"ndrbridge/transform/card"
)

// Options say how a channel is reached.
type Options struct {
	// Token is a bot's token, for chat.postMessage; empty: the URL is that of an
	// incoming webhook.
	Token string
	// Channel is where a bot posts: the channel's id, or its name. It goes with
	// Token.
	Channel string
}

// Preset posts a message for every Send, or a few. Up to card.Few events have a
// card each in it; more are one summary.
type Preset struct{ o Options }

var _ webhook.Preset = (*Preset)(nil)

// New makes a preset. The error tells which of the options lacks the other.
func New(o Options) (*Preset, error) {
	switch {
	case o.Token == "" && o.Channel != "":
		return nil, errors.New("slack: a channel is named, but no bot's token: an incoming webhook has its own channel")
	case o.Token != "" && o.Channel == "":
		return nil, errors.New("slack: a bot's token is given, but no channel")
	}
	return &Preset{o}, nil
}

// Service keeps to the one message a second and channel that Slack takes, from
// webhooks and bots alike.
func (p *Preset) Service() webhook.Service {
	s := webhook.Service{
		Header:            map[string]string{"Content-Type": "application/json; charset=utf-8"},
		RequestsPerSecond: 1,
	}
	if p.o.Token != "" {
		s.Header["Authorization"] = "Bearer " + p.o.Token
	}
	return s
}

// Compose makes one message of the events.
func (p *Preset) Compose(events []transform.Event) (webhook.Request, error) {
	m := message{Channel: p.o.Channel}
	if len(events) > card.Few {
		m.add(card.Summary(events))
	} else {
		for _, e := range events {
			m.add(card.Of(e))
		}
	}
	body, err := json.Marshal(m)
	if err != nil {
		return webhook.Request{}, sinks.Errorf(sinks.Rejected, "encode the message: %w", err)
	}
	return webhook.Request{Events: len(events), Body: body}, nil
}
