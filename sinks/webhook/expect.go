package webhook

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/jsonscan"
	"ndrbridge/transform"
)

// Expect describes the answers that acknowledge events, among those of 2xx. An answer must match
// all fields that are not empty.
type Expect struct {
	// Status holds the permitted statuses.
	Status []string
	// Headers holds the values of header fields by name.
	Headers map[string]string
	// JSON holds the values of members of the body by path, as of jsonscan.At: texts, numbers as
	// written, true or false.
	JSON map[string]string
}

// check returns nil if the answer of 2xx matches, and an error of class Halted otherwise: the
// address or the receiver is at fault, not the events.
func (e *Expect) check(a Answer) error {
	if status := strconv.Itoa(a.Status); len(e.Status) > 0 && !slices.Contains(e.Status, status) {
		return a.unexpected("status", strings.Join(e.Status, " or "), status)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		values := a.Header.Values(name)
		if !slices.Contains(values, e.Headers[name]) {
			return a.unexpected("headers."+name, e.Headers[name], strings.Join(values, ", "))
		}
	}
	if len(e.JSON) > 0 && !json.Valid(a.Body) {
		return a.unexpected("json", "JSON", "")
	}
	for _, path := range slices.Sorted(maps.Keys(e.JSON)) {
		if value := transform.Text(jsonscan.At(a.Body, path)); value != e.JSON[path] {
			return a.unexpected("json."+path, e.JSON[path], value)
		}
	}
	return nil
}

// unexpected returns the error of an answer that differs from a key of expect.
func (a Answer) unexpected(key, expected, received string) error {
	if received = a.Quote(received); received == "" {
		received = "nothing such"
	}
	return failure.Errorf(failure.Halted, "%s, but expect.%s is %s and the answer has %s, so that it acknowledges no event; check url and expect: %s",
		statusText(a.Status), a.Quote(key), a.Quote(expected), received, a.QuoteBody())
}

// page matches the beginning of an HTML document, which may follow a byte order mark, an XML
// declaration and comments.
var page = regexp.MustCompile(`(?is)^\x{FEFF}?(\s|<\?.*?\?>|<!--.*?-->)*<(!doctype\s+)?html\b`)

// isPage reports whether the answer is 2xx with an HTML document. Its Content-Type does not decide:
// that of Slack's "ok" is text/html, and a proxy's page may have none.
func (a Answer) isPage() bool {
	return a.Status/100 == 2 && page.Match(a.Body[:min(len(a.Body), maxDrained)])
}
