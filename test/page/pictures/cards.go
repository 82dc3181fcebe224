//go:build e2e

package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
)

//go:embed cards.html
var cardsPage string

// shown are the events whose cards are on the sheets, by the names of the golden files of presets.
var shown = []string{
	"detection-hidden", "detection-gone", "detection-shown", "detection-noted", "detection-context", "detection-evidence", "rule-created", "blindspot-opened",
}

// sheetCard is a card as a service lays it out.
type sheetCard struct {
	Title, Note, Colour, Footer, Open string
	Facts                             []sheetFact
}

type sheetFact struct {
	Name, Value string
	Wide        bool // it has a line of its own
}

// sheets are the presets of chats, with how to read what they send, and the heights of their pictures.
var sheets = []struct {
	preset string
	read   func([]byte) (sheetCard, error)
	height int64
}{{"slack", readSlack, 755}, {"teams", readTeams, 705}, {"discord", readDiscord, 1008}}

// shootCards writes a picture for each preset of a chat, with the cards that its tests expect.
func shootCards(browser context.Context, to string) error {
	page, err := template.New("cards").Parse(cardsPage)
	if err != nil {
		return err
	}
	for _, sheet := range sheets {
		var cards []sheetCard
		for _, name := range shown {
			path := filepath.Join("sinks/webhook", sheet.preset, "testdata", name+".json")
			message, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			c, err := sheet.read(message)
			if err != nil {
				return fmt.Errorf("read %s: %w", path, err)
			}
			cards = append(cards, c)
		}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = page.Execute(w, map[string]any{"Preset": sheet.preset, "Cards": cards}) // a failure is missing in the picture
		}))
		err := shoot(browser, server.URL, "article", 1120, sheet.height, filepath.Join(to, "chat-"+sheet.preset+".png"))
		server.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func readSlack(body []byte) (c sheetCard, err error) {
	type plain struct{ Text string }
	var m struct {
		Blocks []struct {
			Type     string
			Text     plain
			Fields   []plain
			Elements []struct{ Text plain }
		}
	}
	err = json.Unmarshal(body, &m)
	unescape := func(p plain) string { return text(p.Text, slackEscape) }
	for _, b := range m.Blocks {
		switch b.Type {
		case "header":
			c.Title = unescape(b.Text)
		case "section":
			c.Note = unescape(b.Text)
			for _, f := range b.Fields {
				c.Facts = append(c.Facts, sheetFact{Value: unescape(f)})
			}
		case "actions":
			c.Open = unescape(b.Elements[0].Text)
		}
	}
	return c, err
}

func readTeams(body []byte) (c sheetCard, err error) {
	var m struct {
		Attachments []struct {
			Content struct {
				Body []struct {
					Style string
					Items []struct {
						Inlines []struct{ Text string }
						Actions []struct{ Title string }
					}
				}
			}
		}
	}
	if err = json.Unmarshal(body, &m); err != nil {
		return c, err
	}
	box := m.Attachments[0].Content.Body[0]
	c.Colour = box.Style
	for i, item := range box.Items {
		switch {
		case len(item.Actions) > 0:
			c.Open = item.Actions[0].Title
		case i == 0:
			c.Title = item.Inlines[0].Text
		case len(item.Inlines) == 1:
			c.Note = item.Inlines[0].Text
		case len(item.Inlines) > 1:
			c.Facts = append(c.Facts, sheetFact{item.Inlines[0].Text, item.Inlines[1].Text, true})
		}
	}
	return c, nil
}

func readDiscord(body []byte) (c sheetCard, err error) {
	var m struct {
		Embeds []struct {
			Title, Description string
			Color              int
			Fields             []struct {
				Name, Value string
				Inline      bool
			}
			Footer plainFooter
		}
	}
	if err = json.Unmarshal(body, &m); err != nil {
		return c, err
	}
	e := m.Embeds[0]
	c = sheetCard{Title: text(e.Title, markdownEscape), Note: text(e.Description, markdownEscape), Colour: fmt.Sprintf("#%06x", e.Color), Footer: e.Footer.Text}
	for _, f := range e.Fields {
		c.Facts = append(c.Facts, sheetFact{text(f.Name, markdownEscape), text(f.Value, markdownEscape), !f.Inline})
	}
	return c, nil
}

type plainFooter struct{ Text string }

// What the services make of escaped characters.
var (
	markdownEscape = regexp.MustCompile(`\\([[:punct:]])`)
	slackEscape    = regexp.MustCompile(`&(lt|gt|amp);`)
)

func text(escaped string, escape *regexp.Regexp) string {
	return escape.ReplaceAllStringFunc(escaped, func(found string) string {
		switch found {
		case "&lt;":
			return "<"
		case "&gt;":
			return ">"
		case "&amp;":
			return "&"
		}
		return found[1:]
	})
}
