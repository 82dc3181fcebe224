// Package elasticsearch indexes events in Elasticsearch, or OpenSearch, by the bulk
// API.
package elasticsearch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"ndrbridge/internal/jsonscan"
	"ndrbridge/sinks/webhook"
	"ndrbridge/transform"
)

// Options configure a Preset.
type Options struct {
	// URL is that of an index or a data stream, such as https://es.example:9200/ndr,
	// with or without /_bulk.
	URL string
	// APIKey is an encoded API key; empty means other credentials, or none.
	APIKey string
}

// Preset creates a document for each event: every version of a detection has its own,
// ordered by @timestamp. Its _id is derived from the event, so an event that is sent
// again is detected as existing, which counts as delivered.
//
// A bulk request is not atomic: if one of its documents has to be sent again, those
// behind it are stored anyway, possibly including later versions of the same detection.
// So versions may be stored in an order that differs from their @timestamp. Sending one
// version at a time would only help readers that depend on the order of storing, at the
// cost of one request for each audit log entry.
//
// The document is the CloudEvent with an @timestamp, or the event's data if that has an
// @timestamp, as in ECS.
type Preset struct {
	header map[string]string
	bulk   *url.URL
}

var _ webhook.Preset = (*Preset)(nil)

// New returns a Preset. The error names the faulty option.
func New(o Options) (*Preset, error) {
	bulk, err := url.Parse(o.URL)
	if err != nil {
		return nil, errors.New("elasticsearch: url cannot be parsed")
	}
	bulk.User = nil
	// Keep the escaped path: the slash of a date index, <ndr-{now/d}>, is encoded.
	index := strings.Trim(strings.TrimSuffix("/"+strings.Trim(bulk.EscapedPath(), "/"), "/_bulk"), "/")
	if index == "" {
		return nil, errors.New("elasticsearch: url has no index: write https://host:9200/<index or data stream>")
	}
	bulk.RawPath = "/" + index + "/_bulk"
	if bulk.Path, err = url.PathUnescape(bulk.RawPath); err != nil {
		return nil, errors.New("elasticsearch: the path of url cannot be decoded")
	}
	query := bulk.Query()
	query.Set("filter_path", "errors,items.*.status,items.*.error.type,items.*.error.reason")
	bulk.RawQuery = query.Encode()
	p := &Preset{header: map[string]string{"Content-Type": "application/x-ndjson"}, bulk: bulk}
	if o.APIKey != "" {
		p.header["Authorization"] = "ApiKey " + o.APIKey
	}
	return p, nil
}

// Service returns the header with the API key.
func (p *Preset) Service() webhook.Service { return webhook.Service{Header: p.header} }

// body limits a bulk request to a size that Elasticsearch handles well; its default
// maximum is 100 MB.
var body = webhook.Body{MaxEvents: 2000, MaxBytes: 5 << 20}

// Compose returns a bulk request for the leading events.
func (p *Preset) Compose(events []transform.Event) (webhook.Request, error) {
	request, err := body.Compose(events, appendDocument)
	request.URL = p.bulk
	return request, err
}

func appendDocument(dst []byte, e transform.Event) ([]byte, error) {
	dst = append(dst, `{"create":{"_id":`...)
	dst, err := jsontext.AppendQuote(dst, documentID(e))
	if err != nil {
		return nil, err
	}
	dst = append(dst, "}}\n"...)
	if hasTimestamp(e.Data()) {
		return appendLine(dst, e.Data()), nil
	}
	dst = append(dst, `{"@timestamp":"`...)
	dst = e.When().UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z07:00")
	dst = append(dst, `",`...)
	return appendLine(dst, e.Structured()[1:]), nil
}

// appendLine appends JSON as one line: line breaks in JSON can only be white space.
func appendLine(dst, document []byte) []byte {
	start := len(dst)
	dst = append(dst, document...)
	if bytes.ContainsAny(document, "\n\r") {
		for i, c := range dst[start:] {
			if c == '\n' || c == '\r' {
				dst[start+i] = ' '
			}
		}
	}
	return append(dst, '\n')
}

func hasTimestamp(data []byte) bool {
	for name := range jsonscan.Members(data) {
		if string(name) == "@timestamp" {
			return true
		}
	}
	return false
}

// maxID is the maximum length of an _id in bytes.
const maxID = 512

// documentID derives the _id from the event's source and id, which identify it.
func documentID(e transform.Event) string {
	id := strings.TrimPrefix(e.Source, "ndrbridge://") + "/" + e.ID
	if len(id) > maxID {
		sum := sha256.Sum256([]byte(id))
		id = hex.EncodeToString(sum[:])
	}
	return id
}
