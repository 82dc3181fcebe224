// Package splunk sends events to Splunk's HTTP Event Collector.
package splunk

import (
	"crypto/rand"
	"encoding/hex"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"ndrbridge/sinks/webhook"
	"ndrbridge/transform"
	"ndrbridge/transform/format"
)

// Spec describes the preset.
func Spec() webhook.PresetSpec {
	return webhook.PresetSpec{
		Name:    "splunk_hec",
		Address: "of the HTTP Event Collector",
		Limits:  "1,000 events or 1 MB per request",
		About:   "the HTTP Event Collector of Splunk",
		Example: `    webhook:
      preset: splunk_hec
      url: https://splunk.example.com:8088
      key_file: ./splunk_hec.key # a file with the collector's token
      #index: ndr # instead of the token's own
      #tls: {ca_file: ./splunk-ca.pem} # if the collector's certificate is self-signed
`,
		Guide: webhook.Guide{
			Title: "Splunk", Prepare: "install the add-on, create the index ndr and a token of the HTTP Event Collector that writes to it, with indexer acknowledgement and without a source type",
			Look: "search for `index=ndr sourcetype=ndrbridge:detection`",
		},
		Key:           "the collector token",
		KeyRequired:   true,
		KeyAuthorizes: true,
		Keys:          []string{"index", "source_type"},
		Formats:       format.Names()[1:],
		PublicPath:    true,
		// The timeout includes the time that an indexer has to acknowledge.
		Defaults: webhook.PresetDefaults{MaxBatchBytes: 4 << 20, Timeout: 5 * time.Minute, Concurrency: 8},
		Sample:   webhook.PresetSettings{URL: "https://splunk.example:8088", Key: "token"},
		Check:    checkSettings,
		New:      open,
	}
}

func checkSettings(s webhook.PresetSettings) []webhook.SettingError {
	u, err := url.Parse(s.URL)
	if err != nil || strings.Trim(u.Path, "/") == "" || strings.Contains(u.Path, "/services/collector") {
		return nil
	}
	return []webhook.SettingError{{Key: "url", Problem: "has a path other than that of an event collector; write https://host:8088, or append /services/collector/event"}}
}

// preset sends batches of events, each the whole document: a CloudEvent or, if the sink
// has a format, what the event carries. If the token has indexer
// acknowledgement, events are durable when the indexer confirms them, within the
// webhook's timeout; otherwise when the collector has accepted them.
type preset struct {
	s       webhook.PresetSettings
	ack     *url.URL
	compose func(events []transform.Event) (webhook.Request, error)
}

// open returns the preset with a new channel: a token with acknowledgement requires one, any
// other ignores it. The path of event is /services/collector/event, which is the default if it
// is empty. Without an Index the token's applies, and without a SourceType that of the event
// (see sourceType). Format is the format of the events' documents.
func open(s webhook.PresetSettings, event *url.URL) (*webhook.Preset, error) {
	const collector = "/services/collector"
	if strings.Trim(event.Path, "/") == "" {
		event.Path = collector + "/event"
	}
	ack := *event
	before, _, _ := strings.Cut(event.Path, collector)
	channel := newChannel()
	ack.Path, ack.RawQuery = before+collector+"/ack", "channel="+channel
	p := &preset{s: s, ack: &ack}
	// A request stays below the megabyte that Splunk Cloud recommends.
	p.compose = webhook.Body{URL: event, Encode: p.appendEvent, MaxEvents: 1000, MaxBytes: 1_000_000}.Compose
	return &webhook.Preset{
		Header:  map[string]string{"Authorization": "Splunk " + s.Key, "X-Splunk-Request-Channel": channel},
		Compose: p.compose, Converse: p.converse, Checks: p.checks(),
	}, nil
}

// newChannel returns a channel id: a random UUID (RFC 9562, version 4).
func newChannel() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	text := hex.EncodeToString(b[:])
	return strings.Join([]string{text[:8], text[8:12], text[12:16], text[16:20], text[20:]}, "-")
}

func (p *preset) appendEvent(dst []byte, e transform.Event) (_ []byte, err error) {
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
func (p *preset) sourceType(stream string) string {
	if p.s.SourceType != "" {
		return p.s.SourceType
	}
	name := "ndrbridge:" + strings.TrimSuffix(stream, "s")
	if p.s.Format != "" && p.s.Format != format.CloudEvents {
		name += ":" + string(p.s.Format)
	}
	return name
}
