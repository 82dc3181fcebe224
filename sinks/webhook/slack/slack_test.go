package slack_test

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
	"unicode/utf16"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/card"
	"ndrbridge/sinks/webhook/slack"
	"ndrbridge/test/presettest"
	"ndrbridge/transform"
)

func open(t testing.TB, o webhook.PresetSettings) webhook.Preset {
	t.Helper()
	p, err := slack.New(o)
	if err != nil {
		t.Fatal(err)
	}
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
			errs = append(errs, plain(b["text"], 150))
		case "section":
			if b["text"] == nil && b["fields"] == nil {
				errs = append(errs, errors.New("a section of nothing"))
			}
			if b["text"] != nil {
				errs = append(errs, plain(b["text"], 3000))
			}
			fields, _ := b["fields"].([]any)
			if len(fields) > 10 {
				errs = append(errs, fmt.Errorf("%d fields", len(fields)))
			}
			for _, field := range fields {
				errs = append(errs, plain(field, 2000))
			}
		case "actions":
			elements := b["elements"].([]any)
			if len(elements) < 1 || len(elements) > 25 {
				errs = append(errs, fmt.Errorf("%d elements", len(elements)))
			}
			for _, e := range elements {
				e := e.(object)
				errs = append(errs, plain(e["text"], 75))
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
		n = len(utf16.Encode([]rune(part)))
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

func plain(o any, limit int) error {
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
	if n := len(utf16.Encode([]rune(text))); n > limit {
		return fmt.Errorf("%d characters, and %d are allowed", n, limit)
	}
	if strings.ContainsAny(text, "<>") {
		return fmt.Errorf("a mention or a link in %.200q", text)
	}
	if strings.Contains(entity.ReplaceAllString(text, ""), "&") {
		return fmt.Errorf("half an entity in %.200q", text)
	}
	return nil
}

func TestEveryKindOfEventIsAMessage(t *testing.T) {
	for _, kind := range presettest.Events(t) {
		t.Run(kind.Name, func(t *testing.T) {
			s := presettest.Serve(t, strict)
			if err := presettest.Send(t, s.URL, open(t, webhook.PresetSettings{}), kind.Event); err != nil {
				t.Fatal(err)
			}
			presettest.Golden(t, kind.Name, s.Requests()[0].Body)
		})
	}
}

func TestEventsSentTogetherAreOneMessage(t *testing.T) {
	for _, test := range []struct {
		name   string
		events []transform.Event
	}{
		{"few have a card each", presettest.Only(presettest.Events(t))[:card.Few]},
		{"one more is a summary", presettest.Only(presettest.Events(t))[:card.Few+1]},
		{"all kinds are a summary", presettest.Only(presettest.Events(t))},
		{"a burst is a summary", presettest.Burst(t, 500)},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := presettest.Serve(t, strict)
			if err := presettest.Send(t, s.URL, open(t, webhook.PresetSettings{}), test.events...); err != nil {
				t.Fatal(err)
			}
			if n := len(s.Requests()); n != 1 {
				t.Fatalf("%d requests", n)
			}
			presettest.Golden(t, "together-"+strings.ReplaceAll(test.name, " ", "-"), s.Requests()[0].Body)
		})
	}
}

func TestEventsThatDoNotFitAreInTheNextMessage(t *testing.T) {
	s := presettest.Serve(t, strict)
	events := make([]transform.Event, card.Few)
	for i := range events {
		events[i] = presettest.Titled(t, strings.Repeat("x", 3000))
	}
	if err := presettest.Send(t, s.URL, open(t, webhook.PresetSettings{}), events...); err != nil {
		t.Fatal(err)
	}
	headers := 0
	for _, r := range s.Requests() {
		headers += strings.Count(string(r.Body), `"type":"header"`)
	}
	if n := len(s.Requests()); n < 2 || headers != card.Few {
		t.Errorf("%d requests with %d cards", n, headers)
	}
}

func TestHostileTextsAreTextAlone(t *testing.T) {
	s := presettest.Serve(t, strict)
	for _, text := range presettest.Hostile {
		for _, n := range []int{1, card.Few, card.Few + 1} {
			events := make([]transform.Event, n)
			for i := range events {
				events[i] = presettest.Titled(t, text)
			}
			if err := presettest.Send(t, s.URL, open(t, webhook.PresetSettings{}), events...); err != nil {
				t.Errorf("%.50q: %v", text, err)
			}
		}
	}
}

func FuzzNoTextIsMoreThanText(f *testing.F) {
	for _, text := range presettest.Hostile {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		request, err := open(t, webhook.PresetSettings{}).Compose([]transform.Event{presettest.Titled(t, text)})
		if err != nil {
			t.Fatal(err)
		}
		if err := check(request.Body); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzWhatFitsReadsAsItWas(f *testing.F) {
	for _, text := range presettest.Hostile {
		f.Add(text, 100)
	}
	f.Fuzz(func(t *testing.T, text string, limit int) {
		text = strings.ToValidUTF8(text, "?")
		limit = 1 + (limit%300+300)%300
		fitted := card.Fit(text, limit, slack.Escape)
		if err := mute(fitted, limit); err != nil {
			t.Fatal(err)
		}
		read := html.UnescapeString(strings.TrimSuffix(fitted, card.Ellipsis))
		if read != text && !strings.HasPrefix(text, read) {
			t.Fatalf("%q is read of %q", read, text)
		}
	})
}

func TestSlacksAnswers(t *testing.T) {
	event := presettest.Events(t)[0].Event
	text := func(status int, body string) presettest.Reply { return presettest.Reply{Status: status, Body: body} }
	t.Run("to a webhook", func(t *testing.T) {
		presettest.Answers(t, event, func(string) webhook.Preset { return open(t, webhook.PresetSettings{}) }, []presettest.Case{
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
		bot := func(url string) webhook.Preset {
			return open(t, webhook.PresetSettings{URL: url, Key: "xoxb-secret-1", Channel: "C1"})
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
			{Name: "an unrelated page does not acknowledge", Reply: text(200, `<html>Sign in</html>`), Class: failure.Transient},
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
	err := presettest.Send(t, s.URL, open(t, webhook.PresetSettings{URL: s.URL, Key: "xoxb-secret-1", Channel: "C1"}), presettest.Events(t)[0].Event)
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
		"updates of a webhook":        {Updates: slack.Edit},
		"updates that are none":       {URL: "https://slack.example/api", Key: "t", Channel: "c", Updates: "delete"},
		"a bot whose URL has no host": {URL: "/api", Key: "t", Channel: "c"},
		"a bot whose URL is not one":  {URL: "https://[", Key: "t", Channel: "c"},
		"a bot without a URL":         {Key: "t", Channel: "c"},
	} {
		if _, err := slack.New(o); err == nil {
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
		r, err := open(t, webhook.PresetSettings{URL: test.url, Key: "t", Channel: "c"}).Compose([]transform.Event{presettest.Version(t, 1, 0, "new")})
		if err != nil || r.URL.String() != test.want || !strings.HasPrefix(r.URL.Path, "/") {
			t.Errorf("%s: to %v, %v", test.url, r.URL, err)
		}
	}
}
