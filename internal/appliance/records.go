package appliance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"ndrbridge/internal/jsonscan"
)

// RecordSearch selects records, by ascending timestamp.
type RecordSearch struct {
	// From and Until bound the timestamp, in milliseconds since the epoch; both must be
	// above 0. Timestamps have fractions, and the interface does not document whether
	// the bounds are inclusive.
	From, Until int64
	// Types are record types such as ~http; empty means all.
	Types []string
	// Filter is the interface's filter object, or nil.
	Filter json.RawMessage
	// Limit is the maximum number of results; 0 means the appliance's default.
	Limit int
	// Offset is the number of results to skip.
	Offset int
	// ContextTTL requests a cursor with this lifetime for the remaining results; 0
	// means none. Only the product's own record store supports cursors.
	ContextTTL time.Duration
}

// RecordPage holds the content of an answer with records. It is used like a Page;
// Objects are the records. The zero RecordPage is ready for use.
type RecordPage struct {
	Page
	// Total is the number of matching records; -1 if the answer does not contain it.
	Total int64
	// Cursor is the argument for NextRecords; empty if there is none.
	Cursor string
	// TerminatedEarly means that the record store stopped before it had searched
	// everything.
	TerminatedEarly bool
	// Warnings are the record store's messages about the query: at most maxWarnings,
	// each of at most maxExcerpt printable characters.
	Warnings []string
}

var byTimestamp = []sortField{{"timestamp", "asc"}}

func (s RecordSearch) request() request {
	r := request{method: http.MethodPost, path: "/records/search", repeatable: true, notFound: noRecords}
	if s.From <= 0 || s.Until <= 0 {
		r.err = fmt.Errorf("records are requested from %d until %d; both must be above 0", s.From, s.Until)
		return r
	}
	r.encode("search", struct {
		From       int64           `json:"from"`
		Until      int64           `json:"until"`
		Types      []string        `json:"types,omitempty"`
		Filter     json.RawMessage `json:"filter,omitempty"`
		Limit      int             `json:"limit,omitzero"`
		Offset     int             `json:"offset,omitzero"`
		Sort       []sortField     `json:"sort"`
		ContextTTL int64           `json:"context_ttl,omitzero"`
	}{s.From, s.Until, s.Types, s.Filter, s.Limit, s.Offset, byTimestamp, s.ContextTTL.Milliseconds()})
	return r
}

const noRecords = "check that the appliance has a record store, and that url is the appliance's own address"

// SearchRecords fetches the records that s selects.
func (c *Client) SearchRecords(ctx context.Context, s RecordSearch, page *RecordPage) error {
	return c.fetchRecords(ctx, s.request(), page, s.Limit)
}

// NextRecords fetches the records that follow an answer with cursor, and extends the
// cursor's lifetime to ttl from now. An empty page is the end. The cursor is kept by
// the appliance and advances with each answer: after an error it may have advanced, and
// only a new search finds the records it skipped.
func (c *Client) NextRecords(ctx context.Context, cursor string, ttl time.Duration, page *RecordPage) error {
	r := request{
		method: http.MethodPost, path: "/records/cursor",
		query: url.Values{"context_ttl": {strconv.FormatInt(ttl.Milliseconds(), 10)}},
	}
	r.encode("cursor", map[string]string{"cursor": cursor})
	return c.fetchRecords(ctx, r, page, 0)
}

// fetchRecords is fetchPage for records.
func (c *Client) fetchRecords(ctx context.Context, r request, page *RecordPage, maxObjects int) error {
	var signedIn credential
	r.signedIn = &signedIn
	if err := c.fetchPage(ctx, r, &page.Page, maxObjects, page.decode); err != nil {
		page.clear()
		return err
	}
	c.hideSecrets(signedIn, page.Warnings)
	return nil
}

// hideSecrets removes a request's secrets from texts of its answer.
func (c *Client) hideSecrets(cred credential, texts []string) {
	if len(texts) == 0 {
		return
	}
	secrets := c.link.secrets(cred.secrets...)
	for i := range texts {
		// A truncated text may end with the beginning of a secret.
		text, cut := strings.CutSuffix(texts[i], "…")
		if cut {
			texts[i] = secrets.HideBeginning(text) + "…"
		} else {
			texts[i] = secrets.Hide(text)
		}
	}
}

// RecordID reads the beginning of the first record that s selects, which may have any size,
// and returns its _id; empty if the beginning does not have one that is a string. s.Limit
// should be 1.
func (c *Client) RecordID(ctx context.Context, s RecordSearch) (id string, err error) {
	record, err := c.skim(ctx, s.request(), true, "records")
	if written := member(record, "_id"); bytes.HasPrefix(written, []byte(`"`)) {
		unquoted, _ := jsontext.AppendUnquote(nil, written) // invalid Unicode is replaced
		id = string(unquoted)
	}
	return id, err
}

// clear empties the page and keeps its memory.
func (p *RecordPage) clear() {
	p.Page.clear()
	p.Total, p.Cursor, p.TerminatedEarly, p.Warnings = -1, "", false, nil
}

// decode decodes body as an object with a member records.
func (p *RecordPage) decode(body []byte) error {
	p.clear()
	if err := expect(body, '{', "the answer", "an object"); err != nil {
		return complete(body, 0, err)
	}
	repair, found := !utf8.Valid(body), false
	end, err := jsonscan.Object(body, func(name, rest []byte) (int, error) {
		if string(name) == "records" {
			found = true
			return p.array(rest, "records", repair)
		}
		size, err := jsonscan.Size(rest)
		p.set(string(name), rest[:size])
		return size, err
	})
	if err == nil && !found {
		err = errNoRecords
	}
	return complete(body, end, err)
}

var errNoRecords = errors.New("the answer has no records")

// set sets a field from another member. An invalid value counts as absent: none of them
// is required.
func (p *RecordPage) set(member string, value jsontext.Value) {
	switch member {
	case "total":
		if n, err := jsonscan.Integer(value); err == nil && n >= 0 {
			p.Total = n
		}
	case "cursor":
		if value.Kind() == jsontext.KindString {
			// A cursor that is too long to be sent back is ignored.
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

// warnings decodes the member warnings: an array of strings, or any other value as one
// warning.
func warnings(value jsontext.Value) []string {
	switch string(value[:min(len(value), 5)]) {
	case "null", "[]", "{}", `""`:
		return nil
	}
	// Only the first maxWarnings are decoded.
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

// brief shortens text of any length for a log.
func brief(text string) string { return shorten(printable(text[:min(len(text), maxDrain)])) }
