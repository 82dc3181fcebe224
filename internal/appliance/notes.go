package appliance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"ndrbridge/internal/jsonscan"
)

// Note is the note of a detection: one text, with the author and the time of its last write.
type Note struct {
	Text, Author string
	Time         int64 // in milliseconds since the epoch, 0 if unknown
	// Inexact means that Text is not what the appliance has: that is not valid Unicode, or the
	// answer has two texts.
	Inexact bool
}

// MaxNote limits the text of a note that is written, in bytes.
const MaxNote = 2 << 20

// Note fetches the note of a detection; page.Date is the appliance's time. It returns an *Error
// with status 404 if there is none, and 422 while external ticket tracking is off.
func (c *Client) Note(ctx context.Context, id int64, page *Page) (n Note, err error) {
	err = c.fetchPage(ctx, noteRequest(http.MethodGet, id), page, 1, func(body []byte) error {
		if err := page.decodeObject(body); err != nil {
			return err
		}
		n, err = parseNote(page.Objects[0])
		return err
	})
	return n, err
}

// PutNote replaces the note of a detection by a text of valid UTF-8, whose author is then the
// client. It returns an *Error with status 404 if there is no detection with this id, and 422 while
// external ticket tracking is off. The request is not repeated: if it fails without an answer, the
// outcome is unknown.
func (c *Client) PutNote(ctx context.Context, id int64, text string) error {
	r := noteRequest(http.MethodPut, id)
	switch {
	case !utf8.ValidString(text):
		return c.wrap(r, errors.New("the text is not valid UTF-8"))
	case len(text) > MaxNote:
		return c.wrap(r, fmt.Errorf("the text would have %d bytes, but a note is written with at most %d: shorten it on the appliance", len(text), MaxNote))
	}
	return c.change(ctx, r.method, r.path, map[string]any{"note": text})
}

func noteRequest(method string, id int64) request {
	return request{method: method, path: detectionRequest(id).path + "/notes"}
}

// parseNote reads the note that the appliance has answered with. An object with other members, but
// without a text, is an error: there may be a text under another name.
func parseNote(o Object) (Note, error) {
	n := Note{Inexact: o.Repaired}
	members, texts := 0, 0
	for name, value := range jsonscan.Members(o.Raw) {
		members++
		switch string(name) {
		case "note":
			texts++
			if kind := jsontext.Value(value).Kind(); kind != jsontext.KindString && kind != jsontext.KindNull {
				return Note{}, fmt.Errorf("the note is %s, but must be a string", describe(kind))
			}
			text, exact := unquote(value)
			n.Text, n.Inexact = text, n.Inexact || !exact
		case "author":
			n.Author, _ = unquote(value)
		case "update_time":
			n.Time, _ = jsonscan.Millis(value)
		}
	}
	if members > 0 && texts == 0 {
		return Note{}, errors.New("the answer has no member note")
	}
	n.Inexact = n.Inexact || texts > 1
	return n, nil
}

// unquote returns the text of a string, and whether it is exact: half a surrogate pair is replaced.
// The text of any other value is empty.
func unquote(value []byte) (text string, exact bool) {
	if jsontext.Value(value).Kind() != jsontext.KindString {
		return "", true
	}
	unquoted, err := jsontext.AppendUnquote(nil, value)
	return string(unquoted), err == nil
}
