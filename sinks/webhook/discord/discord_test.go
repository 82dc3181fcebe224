package discord_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/card"
	"ndrbridge/sinks/webhook/discord"
	"ndrbridge/test/presettest"
	"ndrbridge/transform"
)

func open(t testing.TB, url string) webhook.Preset {
	t.Helper()
	p, err := discord.New(url)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

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
		n := len(utf16.Encode([]rune(text)))
		total += n
		if n < least || n > most {
			errs = append(errs, fmt.Errorf("%d characters, not %d to %d", n, least, most))
		}
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

func TestEveryKindOfEventIsAMessage(t *testing.T) {
	for _, kind := range presettest.Events(t) {
		t.Run(kind.Name, func(t *testing.T) {
			s := presettest.Serve(t, strict)
			if err := presettest.Send(t, s.URL, open(t, s.URL), kind.Event); err != nil {
				t.Fatal(err)
			}
			presettest.Golden(t, kind.Name, s.Requests()[0].Body)
		})
	}
}

func TestABurstIsOneMessage(t *testing.T) {
	s := presettest.Serve(t, strict)
	if err := presettest.Send(t, s.URL, open(t, s.URL), presettest.Burst(t, 500)...); err != nil {
		t.Fatal(err)
	}
	if n := len(s.Requests()); n != 1 {
		t.Fatalf("%d requests", n)
	}
	presettest.Golden(t, "burst", s.Requests()[0].Body)
}

func TestHostileTextsAreTextAlone(t *testing.T) {
	s := presettest.Serve(t, strict)
	for _, text := range presettest.Hostile {
		for _, n := range []int{1, 2, card.Few, card.Few + 1} {
			events := make([]transform.Event, n)
			for i := range events {
				events[i] = presettest.Titled(t, text)
			}
			if err := presettest.Send(t, s.URL, open(t, s.URL), events...); err != nil {
				t.Errorf("%.50q, %d times: %v", text, n, err)
			}
		}
	}
}

func FuzzNoTextIsMoreThanText(f *testing.F) {
	for _, text := range presettest.Hostile {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		request, err := open(t, "https://discord.example/x").Compose([]transform.Event{presettest.Titled(t, text)})
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
	backslash := regexp.MustCompile(`\\([^0-9A-Za-z\s])`)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		text = strings.ToValidUTF8(text, "?")
		limit = 1 + (limit%300+300)%300
		fitted := card.Fit(text, limit, discord.Escape)
		if n := len(utf16.Encode([]rune(fitted))); n > limit {
			t.Fatalf("%d characters", n)
		}
		read := backslash.ReplaceAllString(strings.TrimSuffix(fitted, card.Ellipsis), "$1")
		if read != text && !strings.HasPrefix(text, read) {
			t.Fatalf("%q is read of %q", read, text)
		}
	})
}

func TestDiscordsAnswers(t *testing.T) {
	text := func(status int, body string) presettest.Reply { return presettest.Reply{Status: status, Body: body} }
	presettest.Answers(t, presettest.Events(t)[0].Event, func(url string) webhook.Preset { return open(t, url) }, []presettest.Case{
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
