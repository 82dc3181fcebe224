// Package elasticsearch indexes events in Elasticsearch, or OpenSearch, by the bulk
// API.
package elasticsearch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ndrbridge/internal/jsonscan"
	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
	"ndrbridge/transform"
)

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

// New returns a Preset. URL is that of an index or a data stream, such as
// https://es.example:9200/ndr, with or without /_bulk; Key is an encoded API key, if any. The
// error names the faulty setting.
func New(s webhook.PresetSettings) (*Preset, error) {
	bulk, err := url.Parse(s.URL)
	if err != nil {
		return nil, errors.New("elasticsearch: url cannot be parsed")
	}
	bulk.User = nil
	// Keep the escaped path: the slash of a date index, <ndr-{now/d}>, is encoded.
	index := indexOf(bulk.EscapedPath())
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
	if s.Key != "" {
		p.header["Authorization"] = "ApiKey " + s.Key
	}
	return p, nil
}

// indexOf returns the part of a URL's path that names the index.
func indexOf(path string) string {
	return strings.Trim(strings.TrimSuffix("/"+strings.Trim(path, "/"), "/_bulk"), "/")
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

// reply is the answer to a bulk request, reduced by filter_path.
type reply struct {
	Errors *bool             `json:"errors"`
	Items  []map[string]item `json:"items"` // each keyed by its action
}

type item struct {
	Status int `json:"status"`
	Error  struct {
		Type   string `json:"type"`
		Reason string `json:"reason"`
	} `json:"error"`
}

// Judge returns the result of each event.
func (p *Preset) Judge(r webhook.Request, a webhook.Answer) (*webhook.Request, error) {
	if err := a.Refusal(); err != nil {
		return nil, err
	}
	var bulk reply
	if err := json.Unmarshal(a.Body, &bulk); err != nil || bulk.Errors == nil {
		return nil, sinks.Errorf(sinks.Transient, "status %d, but the answer is not a bulk response: %s", a.Status, a.Body)
	}
	if !*bulk.Errors {
		return nil, nil
	}
	if len(bulk.Items) != r.Events {
		return nil, sinks.Errorf(sinks.Transient, "the answer has %d items for a bulk of %d", len(bulk.Items), r.Events)
	}
	each := make(sinks.EventErrors, r.Events)
	failed := false
	for i, action := range bulk.Items {
		for _, item := range action {
			each[i] = item.result()
		}
		failed = failed || each[i] != nil
	}
	if !failed {
		return nil, nil
	}
	return nil, each
}

// result returns the result of the event.
func (i item) result() error {
	var class sinks.Class
	switch {
	case i.Status/100 == 2, i.Status == http.StatusConflict: // the document exists already
		return nil
	case i.Status == http.StatusTooManyRequests:
		class = sinks.Throttled
	case i.Status == http.StatusForbidden, i.Status == http.StatusUnauthorized, // a block, a role
		i.Status == http.StatusNotFound: // no such index, and it is not created automatically
		class = sinks.Halted
	case i.Status/100 == 4:
		class = sinks.Rejected
	default:
		class = sinks.Transient
	}
	return sinks.Errorf(class, "%d %s: %s", i.Status, i.Error.Type, i.Error.Reason)
}
