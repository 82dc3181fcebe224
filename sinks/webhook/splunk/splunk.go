// Package splunk sends events to Splunk's HTTP Event Collector.
package splunk

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"ndrbridge/sinks/webhook"
	"ndrbridge/transform"
	"ndrbridge/transform/format"
)

// Preset sends batches of events, each the whole document: a CloudEvent or, if the sink
// has a format, what the event carries. If the token has indexer
// acknowledgement, events are durable when the indexer confirms them, within the
// webhook's timeout; otherwise when the collector has accepted them.
type Preset struct {
	s       webhook.PresetSettings
	channel string
	event   *url.URL
	ack     *url.URL
}

var _ webhook.Preset = (*Preset)(nil)

// New returns a Preset with a new channel. The path of URL is /services/collector/event,
// which is the default if it is empty, and Key the collector's token. Without an Index the
// token's applies, and without a SourceType that of the event (see sourceType). Format is
// the format of the events' documents; empty means CloudEvents. The error names the faulty
// setting.
func New(s webhook.PresetSettings) (*Preset, error) {
	if s.Key == "" {
		return nil, errors.New("splunk: the token is missing")
	}
	event, err := url.Parse(s.URL)
	if err != nil {
		return nil, errors.New("splunk: url cannot be parsed")
	}
	const collector = "/services/collector"
	event.User = nil
	if strings.Trim(event.Path, "/") == "" {
		event.Path = collector + "/event"
	}
	ack := *event
	before, _, found := strings.Cut(event.Path, collector)
	if !found {
		return nil, errors.New("splunk: the path of url is not that of an event collector, /services/collector/event")
	}
	channel := newChannel()
	ack.Path, ack.RawQuery = before+collector+"/ack", "channel="+channel
	return &Preset{s: s, channel: channel, event: event, ack: &ack}, nil
}

// newChannel returns a channel id: a random UUID (RFC 9562, version 4).
func newChannel() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	text := hex.EncodeToString(b[:])
	return strings.Join([]string{text[:8], text[8:12], text[12:16], text[16:20], text[20:]}, "-")
}

// Service returns the token and the channel: a token with acknowledgement requires a
// channel, any other ignores it.
func (p *Preset) Service() webhook.Service {
	return webhook.Service{Header: map[string]string{
		"Authorization":            "Splunk " + p.s.Key,
		"X-Splunk-Request-Channel": p.channel,
	}}
}

// body keeps a request below the megabyte that Splunk Cloud recommends.
var body = webhook.Body{MaxEvents: 1000, MaxBytes: 1_000_000}

// Compose returns a batch of the leading events: concatenated JSON objects.
func (p *Preset) Compose(events []transform.Event) (webhook.Request, error) {
	request, err := body.Compose(events, p.appendEvent)
	request.URL = p.event
	return request, err
}

func (p *Preset) appendEvent(dst []byte, e transform.Event) (_ []byte, err error) {
	dst = append(dst, '{')
	if at := e.When(); !at.IsZero() {
		dst = append(dst, `"time":`...)
		dst = strconv.AppendFloat(dst, float64(at.UnixMilli())/1000, 'f', 3, 64)
		dst = append(dst, ',')
	}
	dst, err = webhook.AppendMembers(dst, "host", e.Appliance, "source", e.Source, "sourcetype", p.sourceType(e.Stream()))
	if err == nil && p.s.Index != "" {
		dst, err = webhook.AppendMembers(dst, "index", p.s.Index)
	}
	if err != nil {
		return dst, err
	}
	dst = append(dst, `"event":`...)
	if p.s.Format.IsText() {
		dst, err = jsontext.AppendQuote(dst, e.Payload())
	} else {
		dst = append(dst, e.Payload()...)
	}
	return append(dst, '}'), err
}

// sourceType returns the configured source type, else ndrbridge:detection, :audit, :record
// or :event. The format follows if the documents are not CloudEvents, such as
// ndrbridge:detection:ocsf: the fields of one source type have the same names.
func (p *Preset) sourceType(stream string) string {
	if p.s.SourceType != "" {
		return p.s.SourceType
	}
	name := "ndrbridge:" + strings.TrimSuffix(stream, "s")
	if p.s.Format != "" && p.s.Format != format.CloudEvents {
		name += ":" + string(p.s.Format)
	}
	return name
}
