package presettest

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/card"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// Chat is a preset that posts cards to people.
type Chat struct {
	// Open returns the preset for a webhook at url.
	Open func(url string) (*webhook.Preset, error)
	// Answer answers a request as strictly as the service.
	Answer func(Request) Reply
	// Check returns an error for a message that the service would not accept, or in which
	// it would read more than text.
	Check func(body []byte) error
	// LongText is a text of which card.Few cards do not fit into one message, and PerCard
	// what each card of a message has once; empty if card.Few cards always fit.
	LongText, PerCard string
	// Escape escapes a character, and Read is what the service shows of escaped text. Both
	// are nil if all of an escaped text is shown.
	Escape card.Escaper
	Read   func(escaped string) string
}

// Run tests the messages for events of every kind, against golden files in testdata.
func (c Chat) Run(t *testing.T) {
	send := func(t *testing.T, events ...transform.Event) [][]byte {
		t.Helper()
		s := Serve(t, c.Answer)
		require.NoError(t, Send(t, s.URL, Open(t, c.Open, s.URL), events...))
		var bodies [][]byte
		for _, r := range s.Requests() {
			bodies = append(bodies, r.Body)
		}
		return bodies
	}
	t.Run("every kind of event is a message", func(t *testing.T) {
		EveryKind(t, func() func(Request) Reply { return c.Answer }, c.Open)
	})
	t.Run("a burst is one message", func(t *testing.T) {
		messages := send(t, Burst(t, 500)...)
		if n := len(messages); n != 1 {
			t.Fatalf("%d requests", n)
		}
		Golden(t, "burst", messages[0])
	})
	t.Run("hostile texts are text alone", func(t *testing.T) {
		s := Serve(t, c.Answer)
		for _, text := range Hostile {
			for _, n := range []int{1, 2, card.Few, card.Few + 1} {
				if err := Send(t, s.URL, Open(t, c.Open, s.URL), titled(t, text, n)...); err != nil {
					t.Errorf("%.50q, %d times: %v", text, n, err)
				}
			}
		}
	})
	t.Run("events that do not fit are in the next message", func(t *testing.T) {
		if c.LongText == "" {
			t.Skip("they always fit")
		}
		messages, cards := send(t, titled(t, c.LongText, card.Few)...), 0
		for _, m := range messages {
			cards += strings.Count(string(m), c.PerCard)
		}
		if len(messages) < 2 || cards != card.Few {
			t.Errorf("%d requests with %d cards", len(messages), cards)
		}
	})
}

func titled(t testing.TB, text string, n int) []transform.Event {
	events := make([]transform.Event, n)
	for i := range events {
		events[i] = Titled(t, text)
	}
	return events
}

// FuzzText checks that the service reads no text of an event as more than text.
func (c Chat) FuzzText(f *testing.F) {
	for _, text := range Hostile {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		request, err := Open(t, c.Open, "https://chat.example/x").Compose([]transform.Event{Titled(t, text)})
		if err == nil {
			err = c.Check(request.Body)
		}
		require.NoError(t, err)
	})
}

// FuzzFit checks that the service shows the beginning of a text that was cut to fit.
func (c Chat) FuzzFit(f *testing.F) {
	for _, text := range Hostile {
		f.Add(text, 100)
	}
	f.Fuzz(func(t *testing.T, text string, limit int) {
		text = strings.ToValidUTF8(text, "?")
		limit = 1 + (limit%300+300)%300
		fitted := card.Fit(text, limit, c.Escape)
		if n := len(utf16.Encode([]rune(fitted))); n > limit {
			t.Fatalf("%d characters", n)
		}
		read := c.Read(strings.TrimSuffix(fitted, card.Ellipsis))
		if read != text && !strings.HasPrefix(text, read) {
			t.Fatalf("%q is read of %q", read, text)
		}
	})
}

// Text checks a text of a message: that it has from least to most UTF-16 code units.
func Text(text string, least, most int) error {
	if n := len(utf16.Encode([]rune(text))); n < least || n > most {
		return fmt.Errorf("%d characters, not %d to %d", n, least, most)
	}
	return nil
}
