package appliance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"ndrbridge/internal/redact"
)

// RecordSearch selects records, lowest timestamp first.
type RecordSearch struct {
	// From and Until bound the timestamp, in milliseconds since the epoch, both
	// above 0. Timestamps have fractions, and whether a bound is inclusive the
	// interface leaves open.
	From, Until int64
	// Types are record types such as ~http; empty: all.
	Types []string
	// Filter is the interface's filter object; nil: none.
	Filter json.RawMessage
	// Limit is how many are returned at most; 0: as many as the appliance wants.
	Limit int
	// Offset is how many are passed over.
	Offset int
	// ContextTTL asks for a cursor that lives so long, where more match than are
	// returned; 0: no cursor. The product's own record store alone has cursors.
	ContextTTL time.Duration
}

// RecordPage is what an answer about records held. It is used like a Page, whose
// Objects are the records. The zero RecordPage is ready for use.
type RecordPage struct {
	Page
	// Total is how many records match; -1 where the answer does not say.
	Total int64
	// Cursor is what NextRecords goes on with; empty: there is none.
	Cursor string
	// TerminatedEarly says that the record store gave up before it had looked at
	// everything.
	TerminatedEarly bool
	// Warnings are what the record store says about the query, for a person: at most
	// maxWarnings of them, each of at most maxExcerpt printable characters.
	Warnings []string
}

var byTimestamp = []sortField{{"timestamp", "asc"}}

func (s RecordSearch) request() (request, error) {
	r := request{method: http.MethodPost, path: "/records/search", repeatable: true, notFound: noRecords}
	if s.From <= 0 || s.Until <= 0 {
		return r, fmt.Errorf("records are asked for from %d until %d, and both must be above 0", s.From, s.Until)
	}
	body, err := json.Marshal(struct {
		From       int64           `json:"from"`
		Until      int64           `json:"until"`
		Types      []string        `json:"types,omitempty"`
		Filter     json.RawMessage `json:"filter,omitempty"`
		Limit      int             `json:"limit,omitzero"`
		Offset     int             `json:"offset,omitzero"`
		Sort       []sortField     `json:"sort"`
		ContextTTL int64           `json:"context_ttl,omitzero"`
	}{s.From, s.Until, s.Types, s.Filter, s.Limit, s.Offset, byTimestamp, s.ContextTTL.Milliseconds()})
	if err != nil {
		return r, fmt.Errorf("encode the search: %w", err)
	}
	r.body = body
	return r, nil
}

const noRecords = "has the appliance a record store, and is url the appliance's own address?"

// SearchRecords asks for the records that s selects.
func (c *Client) SearchRecords(ctx context.Context, s RecordSearch, page *RecordPage) error {
	r, err := s.request()
	if err != nil {
		page.clear()
		return c.wrap(r, err)
	}
	return c.fetchRecords(ctx, r, page, s.Limit)
}

// NextRecords asks for the records that follow those of an answer with cursor,
// which then lives ttl from now on. The end is a page without records. The
// cursor lies at the appliance and moves with the answer: after an error it may
// have moved, and what it passed over is only found by a new search.
func (c *Client) NextRecords(ctx context.Context, cursor string, ttl time.Duration, page *RecordPage) error {
	r := request{
		method: http.MethodPost, path: "/records/cursor",
		query: url.Values{"context_ttl": {strconv.FormatInt(ttl.Milliseconds(), 10)}},
	}
	var err error
	if r.body, err = json.Marshal(map[string]string{"cursor": cursor}); err != nil {
		page.clear()
		return c.wrap(r, fmt.Errorf("encode the cursor: %w", err))
	}
	return c.fetchRecords(ctx, r, page, 0)
}

// fetchRecords is fetchPage for records.
func (c *Client) fetchRecords(ctx context.Context, r request, page *RecordPage, most int) error {
	var signedIn credential
	r.signedIn = &signedIn
	err := c.fetchPage(ctx, r, &page.Page, most, page.decode)
	if err == nil {
		c.hideSecrets(signedIn, page.Warnings)
	}
	if err != nil {
		page.clear()
	}
	return err
}

// hideSecrets takes what a request was signed in with out of texts of its answer.
func (c *Client) hideSecrets(cred credential, texts []string) {
	if len(texts) == 0 {
		return
	}
	secrets := redact.New(slices.Concat(cred.secrets, c.link.secrets)...)
	for i := range texts {
		// One that was cut short may end with the beginning of a secret.
		text, cut := strings.CutSuffix(texts[i], "…")
		if cut {
			texts[i] = secrets.HideBeginning(text) + "…"
		} else {
			texts[i] = secrets.Hide(text)
		}
	}
}

// RecordID reads through the first record that s selects, of any size, and keeps
// nothing but its _id; empty where it has none that is a string. size is the
// number of bytes of the answer. s.Limit should be 1. Options.Timeout holds,
// Options.MaxAnswer does not.
func (c *Client) RecordID(ctx context.Context, s RecordSearch) (id string, size int64, err error) {
	r, err := s.request()
	if err != nil {
		return "", 0, c.wrap(r, err)
	}
	err = c.do(ctx, r, func(resp *http.Response) error {
		fields := map[string]string{"_id": ""}
		_, size, err = skim(resp.Body, []string{"records", first}, fields)
		if text := fields["_id"]; strings.HasPrefix(text, `"`) {
			unquoted, _ := jsontext.AppendUnquote(nil, text) // what is no Unicode is replaced
			id = string(unquoted)
		}
		return err
	})
	if err != nil {
		return "", 0, err
	}
	return id, size, nil
}

// clear empties the page and keeps its memory.
func (p *RecordPage) clear() {
	p.Page.clear()
	p.Total, p.Cursor, p.TerminatedEarly, p.Warnings = -1, "", false, nil
}

// decode takes body for an object that holds records, with nothing behind it.
func (p *RecordPage) decode(body []byte) error {
	p.clear()
	p.start(body)
	if kind, err := p.peek(body); err != nil {
		return err
	} else if kind != jsontext.KindBeginObject {
		return p.wrong(body, "the answer", kind, "an object")
	}
	if _, err := p.decoder.ReadToken(); err != nil {
		return syntax(body, err)
	}
	repair, found := !utf8.Valid(body), false
	for {
		name, err := p.decoder.ReadToken()
		if err != nil {
			return syntax(body, err)
		}
		if name.Kind() == jsontext.KindEndObject {
			break
		}
		member := name.String()
		if member == "records" {
			found = true
			if err := p.array(body, "records", repair); err != nil {
				return err
			}
			continue
		}
		value, err := p.decoder.ReadValue()
		if err != nil {
			return syntax(body, err)
		}
		p.set(member, value)
	}
	if !found {
		return errNoRecords
	}
	return p.end()
}

var errNoRecords = errors.New("the answer has no records")

// set takes a member beside records. What cannot be read counts as absent:
// none of them is essential.
func (p *RecordPage) set(member string, value jsontext.Value) {
	switch member {
	case "total":
		if n, err := strconv.ParseInt(string(value), 10, 64); err == nil && n >= 0 {
			p.Total = n
		}
	case "cursor":
		if value.Kind() == jsontext.KindString {
			// A cursor too long to be sent back is as good as none.
			if text, err := jsontext.AppendUnquote(nil, value[:min(len(value), maxCursor)]); err == nil {
				p.Cursor = string(text)
			}
		}
	case "terminated_early":
		p.TerminatedEarly = string(value) == "true"
	case "warnings":
		p.Warnings = warnings(value)
	}
}

const (
	maxCursor   = 64 << 10 // bytes
	maxWarnings = 8
)

// warnings reads the member of that name: an array of strings, or else whatever it is as
// one warning.
func warnings(value jsontext.Value) []string {
	switch string(value[:min(len(value), 5)]) {
	case "null", "[]", "{}", `""`:
		return nil
	}
	// What lies beyond the first of them is not looked at.
	d := jsontext.NewDecoder(bytes.NewBuffer(value), jsontext.AllowInvalidUTF8(true))
	if kind := d.PeekKind(); kind == jsontext.KindBeginArray {
		_, _ = d.ReadToken()
		var texts []string
		for len(texts) < maxWarnings && d.PeekKind() == jsontext.KindString {
			text, err := d.ReadToken()
			if err != nil {
				break
			}
			texts = append(texts, brief(text.String()))
		}
		if kind := d.PeekKind(); kind == jsontext.KindEndArray || len(texts) == maxWarnings {
			return texts
		}
	}
	return []string{shorten(excerpt(value[:min(len(value), maxDrain)]))}
}

// brief makes text of any length fit for a log.
func brief(text string) string { return shorten(printable(text[:min(len(text), maxDrain)])) }
