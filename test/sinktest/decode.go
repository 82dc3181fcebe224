package sinktest

import (
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"strings"

	"github.com/cloudevents/sdk-go/v2/binding/spec"
	"github.com/cloudevents/sdk-go/v2/event"
)

// Structured decodes an event in the JSON event format.
func Structured(body []byte) (event.Event, error) {
	var e event.Event
	err := json.Unmarshal(body, &e)
	return e, err
}

// Batch decodes the JSON batch format.
func Batch(body []byte) ([]event.Event, error) {
	var events []event.Event
	err := json.Unmarshal(body, &events)
	return events, err
}

// Binary decodes a message in binary mode. Headers whose names begin with prefix, in any
// case, are attributes; content-type is that of the data. If percent is set, values are
// percent-decoded, as the HTTP and NATS bindings require. It returns an error if a header
// is repeated.
func Binary(prefix string, percent bool, headers iter.Seq2[string, string], data []byte) (event.Event, error) {
	e := event.New()
	seen := map[string]bool{}
	for name, value := range headers {
		name = strings.ToLower(name)
		if seen[name] {
			return e, fmt.Errorf("header %s is repeated", name)
		}
		seen[name] = true
		if name == "content-type" {
			e.SetDataContentType(value)
			continue
		}
		attribute, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		if percent {
			var err error
			if value, err = url.PathUnescape(value); err != nil {
				return e, fmt.Errorf("header %s: %w", name, err)
			}
		}
		if attribute == "specversion" {
			if value != e.SpecVersion() {
				return e, fmt.Errorf("specversion %q", value)
			}
			continue
		}
		if err := spec.V1.SetAttribute(e.Context, attribute, value); err != nil {
			return e, fmt.Errorf("header %s: %w", name, err)
		}
	}
	if !seen[prefix+"specversion"] {
		return e, fmt.Errorf("no header %sspecversion", prefix)
	}
	e.DataEncoded = data
	return e, nil
}
