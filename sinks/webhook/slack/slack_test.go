package slack

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/finding"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/card"
	"ndrbridge/test/presettest"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

func opened(t testing.TB, o webhook.PresetSettings) *webhook.Preset {
	t.Helper()
	p := require.Value(Spec().Open(o))(t)
	return p
}

// strict answers as Slack does: with an error for what Block Kit does not allow.
func strict(request presettest.Request) presettest.Reply {
	if err := check(request.Body); err != nil {
		return presettest.Reply{Status: http.StatusBadRequest, Body: "invalid_blocks: " + err.Error()}
	}
	return presettest.Reply{Status: http.StatusOK, Body: "ok"}
}

type object = map[string]any

// check validates a message by Slack's reference, and checks that its texts are plain.
func check(body []byte) error {
	var m object
	if err := json.Unmarshal(body, &m); err != nil {
		return err
	}
	blocks, _ := m["blocks"].([]any)
	if len(blocks) < 1 || len(blocks) > 50 {
		return fmt.Errorf("%d blocks", len(blocks))
	}
	if n := length(blocks); n > 12_000 {
		return fmt.Errorf("msg_blocks_too_long: %d characters", n)
	}
	errs := []error{mute(m["text"].(string), 4000)}
	for _, b := range blocks {
		b := b.(object)
		switch b["type"] {
		case "divider":
		case "header":
			errs = append(errs, isPlain(b["text"], 150))
		case "section":
			if b["text"] == nil && b["fields"] == nil {
				errs = append(errs, errors.New("a section of nothing"))
			}
			if b["text"] != nil {
				errs = append(errs, isPlain(b["text"], 3000))
			}
			fields, _ := b["fields"].([]any)
			if len(fields) > 10 {
				errs = append(errs, fmt.Errorf("%d fields", len(fields)))
			}
			for _, field := range fields {
				errs = append(errs, isPlain(field, 2000))
			}
		case "actions":
			elements := b["elements"].([]any)
			if len(elements) < 1 || len(elements) > 25 {
				errs = append(errs, fmt.Errorf("%d elements", len(elements)))
			}
			for _, e := range elements {
				e := e.(object)
				errs = append(errs, isPlain(e["text"], 75))
				if url := e["url"].(string); e["type"] != "button" || len(url) > 3000 || !strings.HasPrefix(url, "http") {
					errs = append(errs, fmt.Errorf("element %v", e))
				}
			}
		default:
			errs = append(errs, fmt.Errorf("block %v", b["type"]))
		}
	}
	return errors.Join(errs...)
}

// length counts the characters of all texts and addresses in a message's blocks.
func length(part any) int {
	n := 0
	switch part := part.(type) {
	case string:
		n = card.Length(part)
	case []any:
		for _, element := range part {
			n += length(element)
		}
	case object:
		for name, member := range part {
			if name != "type" {
				n += length(member)
			}
		}
	}
	return n
}

func isPlain(o any, limit int) error {
	t, ok := o.(object)
	if !ok || t["type"] != "plain_text" || t["emoji"] != false {
		return fmt.Errorf("%v is not plain text", o)
	}
	text := t["text"].(string)
	if text == "" {
		return errors.New("an empty text")
	}
	return mute(text, limit)
}

// entity is what may begin with an ampersand.
var entity = regexp.MustCompile(`&(amp|lt|gt);`)

// mute interprets a text as Slack does: text in angle brackets is a mention or a link,
// and an ampersand begins an entity. It returns an error for either.
func mute(text string, limit int) error {
	if err := presettest.Text(text, 0, limit); err != nil {
		return err
	}
	if strings.ContainsAny(text, "<>") {
		return fmt.Errorf("a mention or a link in %.200q", text)
	}
	if strings.Contains(entity.ReplaceAllString(text, ""), "&") {
		return fmt.Errorf("half an entity in %.200q", text)
	}
	return nil
}

func toWebhook(url string) (*webhook.Preset, error) {
	return Spec().Open(webhook.PresetSettings{URL: url})
}

var chat = presettest.Chat{
	Open: toWebhook, Answer: strict, Check: check, LongText: strings.Repeat("x", 3000), PerCard: `"type":"header"`,
	Escape: escape, Read: html.UnescapeString,
}

func TestChat(t *testing.T) { chat.Run(t) }

func FuzzText(f *testing.F) { chat.FuzzText(f) }

func FuzzFit(f *testing.F) { chat.FuzzFit(f) }

func TestEventsSentTogetherAreOneMessage(t *testing.T) {
	for _, test := range []struct {
		name   string
		events []transform.Event
	}{
		{"few have a card each", presettest.Only(presettest.Events(t))[:card.Few]},
		{"one more is a summary", presettest.Only(presettest.Events(t))[:card.Few+1]},
		{"all kinds are a summary", presettest.Only(presettest.Events(t))},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := presettest.Serve(t, strict)
			require.NoError(t, presettest.Send(t, s.URL, opened(t, webhook.PresetSettings{}), test.events...))
			require.Equal(t, len(s.Requests()), 1, "requests")
			presettest.Golden(t, "together-"+strings.ReplaceAll(test.name, " ", "-"), s.Requests()[0].Body)
		})
	}
}

func TestSlacksAnswers(t *testing.T) {
	event := presettest.Events(t)[0].Event
	text := func(status int, body string) presettest.Reply { return presettest.Reply{Status: status, Body: body} }
	t.Run("to a webhook", func(t *testing.T) {
		presettest.Answers(t, event, toWebhook, []presettest.Case{
			{Name: "ok is durable", Reply: text(200, "ok")},
			{Name: "blocks that are invalid are rejected", Reply: text(400, "invalid_blocks"), Class: failure.Rejected},
			{Name: "a payload that is invalid is rejected", Reply: text(400, "invalid_payload\n"), Class: failure.Rejected},
			{Name: "a message without text is rejected", Reply: text(400, "no_text"), Class: failure.Rejected},
			{Name: "a 500 with an error of the message is rejected", Reply: text(500, "invalid_attachments"), Class: failure.Rejected},
			{Name: "an unknown 400 is rejected", Reply: text(400, "something_new"), Class: failure.Rejected},
			{Name: "a webhook that was removed halts", Reply: text(404, "no_service"), Class: failure.Halted},
			{Name: "a webhook that was removed halts whatever the status", Reply: text(400, "no_service"), Class: failure.Halted},
			{Name: "a token that is invalid halts", Reply: text(403, "invalid_token"), Class: failure.Halted},
			{Name: "an archived channel halts", Reply: text(410, "channel_is_archived"), Class: failure.Halted},
			{Name: "an unknown user halts", Reply: text(400, "user_not_found"), Class: failure.Halted},
			{Name: "a workspace that forbids it halts", Reply: text(403, "action_prohibited"), Class: failure.Halted},
			{Name: "a rollup error passes", Reply: text(500, "rollup_error"), Class: failure.Transient},
			{Name: "too many messages wait as long as is asked for", Class: failure.Throttled, Wait: 30 * time.Second,
				Reply: presettest.Reply{Status: 429, Body: "rate_limited", Header: map[string]string{"Retry-After": "30"}}},
			{Name: "a redirect halts", Class: failure.Halted, Reply: presettest.Reply{Status: 302, Header: map[string]string{"Location": "/x"}}},
		})
	})
	t.Run("to a bot", func(t *testing.T) {
		bot := func(url string) (*webhook.Preset, error) {
			return Spec().Open(webhook.PresetSettings{URL: url, Key: "xoxb-secret-1", Channel: "C1"})
		}
		presettest.Answers(t, event, bot, []presettest.Case{
			{Name: "ok is durable", Reply: text(200, `{"ok":true,"channel":"C1","ts":"1503435956.000247"}`)},
			{Name: "blocks that are invalid are rejected", Reply: text(200, `{"ok":false,"error":"invalid_blocks"}`), Class: failure.Rejected},
			{Name: "a message that is too long is rejected", Reply: text(200, `{"ok":false,"error":"msg_too_long"}`), Class: failure.Rejected},
			{Name: "an unknown channel halts", Reply: text(200, `{"ok":false,"error":"channel_not_found"}`), Class: failure.Halted},
			{Name: "a bot that is not in the channel halts", Reply: text(200, `{"ok":false,"error":"not_in_channel"}`), Class: failure.Halted},
			{Name: "a token that was revoked halts", Reply: text(200, `{"ok":false,"error":"token_revoked"}`), Class: failure.Halted},
			{Name: "a scope that is missing halts", Reply: text(200, `{"ok":false,"error":"missing_scope","needed":"chat:write"}`), Class: failure.Halted},
			{Name: "a fatal error passes", Reply: text(200, `{"ok":false,"error":"fatal_error"}`), Class: failure.Transient},
			{Name: "an error that nobody knows passes", Reply: text(200, `{"ok":false,"error":"something_new"}`), Class: failure.Transient},
			{Name: "an unrelated page does not acknowledge", Reply: text(200, `<html>Sign in</html>`), Class: failure.Halted},
			{Name: "too many messages wait", Class: failure.Throttled, Wait: time.Second,
				Reply: presettest.Reply{Status: 429, Body: `{"ok":false,"error":"ratelimited"}`, Header: map[string]string{"Retry-After": "1"}}},
			{Name: "too many messages wait though the status is 200", Reply: text(200, `{"ok":false,"error":"ratelimited"}`), Class: failure.Throttled},
		})
	})
}

func TestABotSendsItsChannelAndHidesItsToken(t *testing.T) {
	s := presettest.Serve(t, func(r presettest.Request) presettest.Reply {
		return presettest.Reply{Status: 200, Body: `{"ok":false,"error":"invalid_auth: ` + r.Header.Get("Authorization") + `"}`}
	})
	err := presettest.Send(t, s.URL, opened(t, webhook.PresetSettings{URL: s.URL, Key: "xoxb-secret-1", Channel: "C1"}), presettest.Events(t)[0].Event)
	if err == nil || strings.Contains(err.Error(), "xoxb-secret-1") {
		t.Errorf("the error shows the token, or there is none: %v", err)
	}
	r := s.Requests()[0]
	var m struct{ Channel string }
	if err := json.Unmarshal(r.Body, &m); err != nil || m.Channel != "C1" || r.Header.Get("Authorization") != "Bearer xoxb-secret-1" {
		t.Errorf("channel %q, %v", m.Channel, err)
	}
}

func TestOptionsThatDoNotFitTogether(t *testing.T) {
	for name, o := range map[string]webhook.PresetSettings{
		"a token without a channel":   {URL: "https://slack.example/api", Key: "t"},
		"a channel without a token":   {Channel: "c"},
		"updates of a webhook":        {Updates: edit},
		"updates that are none":       {URL: "https://slack.example/api", Key: "t", Channel: "c", Updates: "delete"},
		"a bot whose URL has no host": {URL: "/api", Key: "t", Channel: "c"},
		"a bot whose URL is not one":  {URL: "https://[", Key: "t", Channel: "c"},
		"a bot without a URL":         {Key: "t", Channel: "c"},
	} {
		if _, err := Spec().Open(o); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestTheMethodsOfABotShareABaseURL(t *testing.T) {
	for _, test := range []struct{ url, want string }{
		{"https://slack.com/api/chat.postMessage", "https://slack.com/api/chat.postMessage"},
		{"https://slack.com/api/chat.update", "https://slack.com/api/chat.postMessage"},
		{"https://slack.com/api", "https://slack.com/api/chat.postMessage"},
		{"https://slack.com/api/", "https://slack.com/api/chat.postMessage"},
		{"https://relay.example", "https://relay.example/chat.postMessage"},
	} {
		r, err := opened(t, webhook.PresetSettings{URL: test.url, Key: "t", Channel: "c"}).Compose([]transform.Event{presettest.Version(t, 1, 0, "new")})
		if err != nil || r.URL.String() != test.want || !strings.HasPrefix(r.URL.Path, "/") {
			t.Errorf("%s: to %v, %v", test.url, r.URL, err)
		}
	}
}

func knownChannels(info string) http.Handler {
	h := http.NewServeMux()
	h.HandleFunc("GET /api/auth.test", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+presettest.CheckKey {
			presettest.JSON(w, http.StatusOK, `{"ok":false,"error":"invalid_auth"}`)
			return
		}
		presettest.JSON(w, http.StatusOK, `{"ok":true,"user":"ndrbridge","team":"SOC"}`)
	})
	h.HandleFunc("GET /api/conversations.info", func(w http.ResponseWriter, r *http.Request) {
		if id := r.URL.Query().Get("channel"); id != "C012AB3CD" && id != "D012AB3CD" {
			info = `{"ok":false,"error":"channel_not_found"}`
		}
		presettest.JSON(w, http.StatusOK, info)
	})
	return h
}

const member = `{"ok":true,"channel":{"name":"alerts","is_member":true,"is_archived":false}}`

func TestChecks(t *testing.T) {
	toSlack := func(token, channel string) func(string) (*webhook.Preset, error) {
		return func(url string) (*webhook.Preset, error) {
			return Spec().Open(webhook.PresetSettings{URL: url + "/api", Key: token, Channel: channel})
		}
	}
	presettest.Checks(t, []presettest.CheckTest{
		{Name: "a bot in its channel", Server: knownChannels(member), Open: toSlack(presettest.CheckKey, "C012AB3CD"), Want: presettest.Row("channel", finding.OK, "alerts", "")},
		{Name: "who the bot is", Server: knownChannels(member), Open: toSlack(presettest.CheckKey, "C012AB3CD"), Want: presettest.Row("token", finding.OK, "ndrbridge in SOC", "")},
		{Name: "a wrong token", Server: knownChannels(member), Open: toSlack("wrong-token", "C012AB3CD"), Want: presettest.Row("token", finding.Failed, "invalid_auth", "xoxb-")},
		{Name: "a bot that was not invited", Server: knownChannels(strings.Replace(member, `"is_member":true`, `"is_member":false`, 1)), Open: toSlack(presettest.CheckKey, "C012AB3CD"), Want: presettest.Row("channel", finding.Warning, "alerts", "invite")},
		{Name: "a direct message", Server: knownChannels(`{"ok":true,"channel":{"id":"D012AB3CD","is_im":true,"user":"U012AB3CD","is_archived":false}}`), Open: toSlack(presettest.CheckKey, "D012AB3CD"), Want: presettest.Row("channel", finding.OK, "direct message", "")},
		{Name: "a channel that is archived", Server: knownChannels(strings.Replace(member, `"is_archived":false`, `"is_archived":true`, 1)), Open: toSlack(presettest.CheckKey, "C012AB3CD"), Want: presettest.Row("channel", finding.Failed, "archived", "check channel")},
		{Name: "a channel that nobody knows", Server: knownChannels(member), Open: toSlack(presettest.CheckKey, "C0000"), Want: presettest.Row("channel", finding.Failed, "channel_not_found", "invite")},
		{Name: "a channel by its name", Server: knownChannels(member), Open: toSlack(presettest.CheckKey, "#alerts"), Want: presettest.Row("channel", finding.Untried, "not an id", "channel's id")},
		{Name: "a bot without the scope", Server: knownChannels(`{"ok":false,"error":"missing_scope"}`), Open: toSlack(presettest.CheckKey, "C012AB3CD"), Want: presettest.Row("channel", finding.Untried, "missing_scope", "channels:read")},
		presettest.NoCheck("an incoming webhook", toWebhook),
	})
}
