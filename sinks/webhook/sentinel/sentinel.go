// Package sentinel sends events to Microsoft Sentinel, by the Logs Ingestion API of Azure
// Monitor.
package sentinel

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
	"ndrbridge/transform"
)

// Preset sends arrays of documents to the streams of a data collection rule, which
// transforms them into rows of tables. The rule is expected to make TimeGenerated.
//
// The API confirms that it received the rows. It reports neither a row that the rule cannot
// transform nor a column that it does not declare.
type Preset struct {
	streams map[string]*url.URL // by the event's stream
	other   *url.URL            // of any other stream
}

var _ webhook.Grouper = (*Preset)(nil)

// apiVersion is the version of the API.
const apiVersion = "2023-01-01"

// streams are the names of the rule's streams, by the event's.
var streams = map[string]string{
	transform.StreamDetections: "Custom-NdrbridgeDetection",
	transform.StreamAudit:      "Custom-NdrbridgeAudit",
	transform.StreamRecords:    "Custom-NdrbridgeRecord",
	transform.StreamEvents:     "Custom-NdrbridgeEvent",
}

// New returns a Preset. URL is the logs ingestion endpoint of the rule or of a data
// collection endpoint, RuleID the rule's immutable id. Stream is the rule's stream for all
// events; if it is empty, events of different streams go to different streams of the rule.
// The error names the faulty setting.
func New(s webhook.PresetSettings) (*Preset, error) {
	for _, e := range checkSettings(s) {
		return nil, errors.New("sentinel: " + e.Key + " " + e.Problem)
	}
	endpoint, err := url.Parse(s.URL)
	if err != nil {
		return nil, errors.New("sentinel: url cannot be parsed")
	}
	endpoint.User = nil
	if endpoint.Path == "" {
		endpoint.Path = "/" // JoinPath keeps a relative path relative
	}
	to := func(stream string) *url.URL {
		u := endpoint.JoinPath("dataCollectionRules", s.RuleID, "streams", stream)
		query := u.Query()
		query.Set("api-version", apiVersion)
		u.RawQuery = query.Encode()
		return u
	}
	if s.Stream != "" {
		return &Preset{other: to(s.Stream)}, nil
	}
	p := &Preset{streams: make(map[string]*url.URL), other: to(streams[transform.StreamEvents])}
	for stream, name := range streams {
		p.streams[stream] = to(name)
	}
	return p, nil
}

// Service returns nothing: requests are authorized by OAuth.
func (p *Preset) Service() webhook.Service { return webhook.Service{} }

func (p *Preset) target(e transform.Event) *url.URL {
	if u, ok := p.streams[e.Stream()]; ok {
		return u
	}
	return p.other
}

// Group returns the path of the request that can carry the event.
func (p *Preset) Group(e transform.Event) string { return p.target(e).Path }

// body is limited to 1 MB, which applies to the request before and after compression. As
// the API's own clients do, it takes a million bytes for a megabyte.
var body = webhook.Body{MaxEvents: 10_000, MaxBytes: maxBytes, MaxEvent: maxBytes - len("[]"), Open: "[", Between: ",", Close: "]"}

const maxBytes = 1_000_000

// Compose returns an array of the documents of the leading events that go to one stream.
func (p *Preset) Compose(events []transform.Event) (webhook.Request, error) {
	to, n := p.target(events[0]), 1
	for n < len(events) && p.target(events[n]) == to {
		n++
	}
	request, err := body.Compose(events[:n], func(dst []byte, e transform.Event) ([]byte, error) {
		return append(dst, e.Payload()...), nil
	})
	request.URL = to
	return request, err
}

// reply is the answer to a request that failed.
type reply struct {
	Error struct {
		Code string `json:"code"`
	} `json:"error"`
}

// Judge accepts the whole request on status 204.
func (p *Preset) Judge(_ webhook.Request, a webhook.Answer) (*webhook.Request, error) {
	var answer reply
	switch err := a.Refusal(); {
	case err == nil && a.Status != http.StatusNoContent:
		return nil, a.Error(failure.Transient) // not from this API
	case err != nil && json.Unmarshal(a.Body, &answer) == nil && answer.Error.Code == "InvalidStream":
		return nil, a.Error(failure.Halted) // the rule has no such stream
	default:
		return nil, err
	}
}
