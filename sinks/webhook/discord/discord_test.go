package discord

import (
	"encoding/json"
	"errors"
	"fmt"
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
)

// strict answers like Discord, with code 50035 for an invalid message.
func strict(request presettest.Request) presettest.Reply {
	if request.Query != "wait=true" {
		return presettest.Reply{Status: http.StatusNoContent}
	}
	if err := check(request.Body); err != nil {
		return presettest.Reply{Status: http.StatusBadRequest, Body: fmt.Sprintf(`{"message": %q, "code": 50035}`, "Invalid Form Body: "+err.Error())}
	}
	return presettest.Reply{Status: http.StatusOK, Body: `{"id": "1"}`}
}

// check reads a message by Discord's reference, and that its Markdown is text alone.
func check(body []byte) error {
	var m struct {
		Content string
		Embeds  []struct {
			Title, Description, URL, Timestamp string
			Color                              int
			Fields                             []struct{ Name, Value string }
			Footer                             struct{ Text string }
		}
		AllowedMentions *struct{ Parse *[]string } `json:"allowed_mentions"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return err
	}
	if m.AllowedMentions == nil || m.AllowedMentions.Parse == nil || len(*m.AllowedMentions.Parse) > 0 {
		return errors.New("mentions are allowed")
	}
	if m.Content != "" || len(m.Embeds) < 1 || len(m.Embeds) > 10 {
		return fmt.Errorf("%d embeds", len(m.Embeds))
	}
	total := 0
	var errs []error
	read := func(text string, least, most int) {
		total += card.Length(text)
		errs = append(errs, presettest.Text(text, least, most))
		if markup := markupOf(text); markup != "" {
			errs = append(errs, fmt.Errorf("%q is read in %.200q", markup, text))
		}
	}
	for _, e := range m.Embeds {
		read(e.Title, 1, 256)
		read(e.Description, 0, 4096)
		read(e.Footer.Text, 0, 2048)
		if len(e.Fields) > 25 {
			errs = append(errs, fmt.Errorf("%d fields", len(e.Fields)))
		}
		for _, f := range e.Fields {
			read(f.Name, 1, 256)
			read(f.Value, 1, 1024)
		}
		if e.Timestamp != "" {
			if _, err := time.Parse(time.RFC3339, e.Timestamp); err != nil {
				errs = append(errs, err)
			}
		}
		if e.URL != "" && !strings.HasPrefix(e.URL, "http") || e.Color < 0 || e.Color > 0xffffff {
			errs = append(errs, errors.New("url or color"))
		}
	}
	if total > 6000 {
		errs = append(errs, fmt.Errorf("%d characters in all", total))
	}
	return errors.Join(errs...)
}

var (
	// escaped is a backslash and the character that it escapes.
	escaped = regexp.MustCompile(`\\[^0-9A-Za-z\s]`)
	// markup is what Discord interprets in unescaped text.
	markup = regexp.MustCompile("@(everyone|here)|<[@#:at/]|https?://|[*_~`|\\[\\]\\\\]|(?m:^\\s*(>|#|-|\\+))|:\\w+:")
)

// markupOf returns what Discord's Markdown would read in a text.
func markupOf(text string) string { return markup.FindString(escaped.ReplaceAllString(text, "\x01")) }

var backslash = regexp.MustCompile(`\\([^0-9A-Za-z\s])`)

var chat = presettest.Chat{
	Open: toDiscord, Answer: strict, Check: check,
	Escape: escape, Read: func(escaped string) string { return backslash.ReplaceAllString(escaped, "$1") },
}

func toDiscord(url string) (*webhook.Preset, error) {
	return Spec().Open(webhook.PresetSettings{URL: url})
}

func TestChat(t *testing.T) { chat.Run(t) }

func FuzzText(f *testing.F) { chat.FuzzText(f) }

func FuzzFit(f *testing.F) { chat.FuzzFit(f) }

func TestDiscordsAnswers(t *testing.T) {
	text := func(status int, body string) presettest.Reply { return presettest.Reply{Status: status, Body: body} }
	presettest.Answers(t, presettest.Events(t)[0].Event, toDiscord, []presettest.Case{
		{Name: "a message is durable", Reply: text(200, `{"id": "1"}`)},
		{Name: "an invalid form is rejected", Reply: text(400, `{"code": 50035, "message": "Invalid Form Body"}`), Class: failure.Rejected},
		{Name: "an unknown webhook halts", Reply: text(404, `{"code": 10015, "message": "Unknown Webhook"}`), Class: failure.Halted},
		{Name: "an invalid token halts", Reply: text(401, `{"code": 50027, "message": "Invalid Webhook Token"}`), Class: failure.Halted},
		{Name: "a forum that requires a thread halts", Reply: text(400, `{"code": 220001, "message": "Webhooks posted to forum channels must have a thread_name or thread_id"}`), Class: failure.Halted},
		{Name: "a wait in the body counts, with its fraction", Class: failure.Throttled, Wait: 1500 * time.Millisecond,
			Reply: presettest.Reply{Status: 429, Body: `{"message": "You are being rate limited.", "retry_after": 1.5, "global": false}`, Header: map[string]string{"Retry-After": "1"}}},
		{Name: "a wait in the header alone counts", Class: failure.Throttled, Wait: 2 * time.Second,
			Reply: presettest.Reply{Status: 429, Body: "error code: 1015", Header: map[string]string{"Retry-After": "2"}}},
		{Name: "no wait lasts longer than a day", Class: failure.Throttled, Wait: 24 * time.Hour, Reply: text(429, `{"retry_after": 1e18}`)},
		{Name: "a server that fails passes", Reply: text(503, ""), Class: failure.Transient},
	})
}

func TestChecks(t *testing.T) {
	at := func(path string) func(string) (*webhook.Preset, error) {
		return func(url string) (*webhook.Preset, error) { return toDiscord(url + path) }
	}
	discordAPI := presettest.API("", "", nil, map[string]string{"GET /api/webhooks/1/token-token": `200 {"id":"1","type":1,"channel_id":"2"}`})
	presettest.Checks(t, []presettest.CheckTest{
		{Name: "a webhook that is there", Server: discordAPI, Open: at("/api/webhooks/1/token-token"), Want: presettest.Row("webhook", finding.OK, "knows the webhook", "")},
		{Name: "a webhook that was removed", Server: discordAPI, Open: at("/api/webhooks/1/another-token"), Want: presettest.Row("webhook", finding.Failed, "404", "copy url")},
		{Name: "a service that hangs up on its callers", Server: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), Open: at("/api/webhooks/1/token-token"), Want: presettest.Row("webhook", finding.Failed, "EOF", "check url")},
	})
}
