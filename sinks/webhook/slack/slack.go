// Package slack posts cards to a Slack channel, by an incoming webhook or as a bot, which
// can update them later.
package slack

import (
	"cmp"
	"errors"
	"net/url"
	"path"
	"slices"
	"strings"

	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/card"
	"ndrbridge/transform"
)

// Spec describes the preset.
func Spec() webhook.PresetSpec {
	return webhook.PresetSpec{
		Name:    "slack",
		Address: "an incoming webhook's; or https://slack.com/api, for a bot",
		Limits:  "one message or edit per second",
		About:   "a channel of Slack",
		Example: `    webhook:
      preset: slack
      url_file: ./slack.url # a file with the URL of the incoming webhook, which is a secret
    match: detection.risk_score >= 80 # leave it out for all events
`,
		Guide: webhook.Guide{
			Title: "Slack", Prepare: "create an app with an incoming webhook for the channel; its URL is the secret",
			Look: "the channel has a card for each version of a detection of high risk",
		},
		Key:           "a bot token",
		KeyAuthorizes: true,
		Keys:          []string{"channel", "updates"},
		Chat:          true,
		Defaults:      webhook.PresetDefaults{Updates: edit},
		Sample:        webhook.PresetSettings{URL: "https://slack.example/services/T0/B0/a-hook"},
		Check:         checkSettings,
		New:           open,
	}
}

func checkSettings(s webhook.PresetSettings) (errs []webhook.SettingError) {
	switch {
	case s.Channel != "" && s.Key == "":
		errs = append(errs, webhook.SettingError{Key: "channel", Problem: "is set without key_file, a bot token; set both, or neither for an incoming webhook, which has a fixed channel"})
	case s.Channel == "" && s.Key != "":
		errs = append(errs, webhook.SettingError{Key: "channel", Problem: "is missing; a bot (key) requires the id or the name of the channel to post in"})
	}
	if s.Updates != "" && s.Key == "" {
		errs = append(errs, webhook.SettingError{Key: "updates", Problem: "is set without key_file, a bot token: an incoming webhook cannot change its messages; leave it out"})
	}
	return errs
}

// The values of the setting Updates: how a bot shows later versions of a detection that has
// a message.
const (
	// edit edits the message.
	edit = "edit"
	// thread replies in the message's thread, and edits the message when the detection
	// is closed or reopened.
	thread = "thread"
	// post posts a new message.
	post = "post"
)

// preset posts one message for each Send, or several if the cards do not fit into one.
// Up to card.Few events have a card each; more are combined into one summary.
//
// A bot posts a message for each detection and remembers it, unless Updates is post.
// More than card.Few events at once without messages are combined into a summary, too,
// which is not remembered: the next version of each detection is posted as a new
// message.
//
// A redelivered version that is older than the one shown never replaces it: it is
// posted as a reply in the message's thread. If the message was deleted or can no
// longer be edited, a new one is posted.
type preset struct {
	s            webhook.PresetSettings
	post, update *url.URL // nil for an incoming webhook
}

// open returns the preset. With a Key, which is a bot's token, base is the base of the Web
// API's methods, https://slack.com/api, or one of the methods, and Channel is required;
// Updates is one of the constants, edit if empty. Without, it posts by an incoming webhook and
// has neither.
//
// Slack accepts one message per second and channel from webhooks and bots. The limit also
// applies to edits, of which Slack accepts about fifty a minute.
func open(s webhook.PresetSettings, base *url.URL) (*webhook.Preset, error) {
	p := &preset{s: s}
	opened := &webhook.Preset{
		Header:            map[string]string{"Content-Type": "application/json; charset=utf-8"},
		RequestsPerSecond: 1,
		Undivided:         true, // one summary of a burst, not several
		Compose:           p.compose,
		Judge:             judge,
	}
	if s.Key == "" {
		return opened, nil
	}
	p.s.Updates = cmp.Or(s.Updates, edit)
	switch {
	case !slices.Contains([]string{edit, thread, post}, p.s.Updates):
		return nil, errors.New("updates is not edit, thread or post")
	case base.Hostname() == "":
		return nil, errors.New("url is not that of a Web API method, such as https://slack.com/api/chat.postMessage")
	}
	base = base.JoinPath("/") // an empty path would stay relative
	if strings.HasPrefix(path.Base(base.Path), "chat.") {
		base = base.JoinPath("..")
	}
	p.post, p.update = base.JoinPath("chat.postMessage"), base.JoinPath("chat.update")
	opened.Header["Authorization"] = "Bearer " + s.Key
	opened.Key, opened.Converse = p.key, p.converse
	opened.Checks = p.checks()
	return opened, nil
}

// judge interprets the answer of an incoming webhook.
func judge(_ webhook.Request, a webhook.Answer) error {
	if a.Status/100 == 2 {
		return nil
	}
	return refused(a, strings.TrimSpace(string(a.Body)))
}

// compose returns one message for the leading events: for all of them, or, with a bot, for one
// that is to have a message of its own.
func (p *preset) compose(events []transform.Event) (webhook.Request, error) {
	if together := p.together(events, func(int) bool { return false }); together > 0 {
		return p.composeTogether(events[:together])
	}
	return p.composePost(events[0])
}

// composeTogether returns one message with as many events as fit; it is not remembered.
func (p *preset) composeTogether(events []transform.Event) (webhook.Request, error) {
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
	return webhook.Request{Events: n, URL: p.post}.EncodeJSON(m)
}
