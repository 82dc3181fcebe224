package webhook

import (
	"github.com/go-json-experiment/json/jsontext"

	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// Body is a request's body that is made of events, one after the other, as far as a
// service takes them in one request.
type Body struct {
	// MaxEvents and MaxBytes are how much the body holds at most.
	MaxEvents, MaxBytes int
	// MaxEvent is how many bytes an event has at most; 0: MaxBytes, but that a larger
	// one is sent alone.
	MaxEvent int
	// Open, Between and Close stand around the events.
	Open, Between, Close string
}

// Compose makes the request for the leading events with what encode appends for
// each of them. The error is that of the first event.
func (b Body) Compose(events []transform.Event, encode func([]byte, transform.Event) ([]byte, error)) (Request, error) {
	size := len(b.Open) + len(b.Close)
	for _, e := range events[:min(len(events), b.MaxEvents)] {
		if size += len(e.Structured()) + 512; size > b.MaxBytes {
			break
		}
	}
	body := append(make([]byte, 0, min(size, b.MaxBytes)), b.Open...)
	for i, e := range events {
		if i == b.MaxEvents {
			return b.end(body, i)
		}
		fits := len(body)
		if i > 0 {
			body = append(body, b.Between...)
		}
		start := len(body)
		longer, err := encode(body, e)
		switch {
		case err == nil && b.MaxEvent > 0 && len(longer)-start > b.MaxEvent:
			err = sinks.Unsendable("the event takes %d bytes, and %d are allowed", len(longer)-start, b.MaxEvent)
		case err != nil:
			err = sinks.Unsendable("encode the event: %w", err)
		}
		if i == 0 && err != nil {
			return Request{}, err
		}
		if i > 0 && (err != nil || len(longer)+len(b.Close) > b.MaxBytes) {
			return b.end(body[:fits], i) // it comes first in the next request
		}
		body = longer
	}
	return b.end(body, len(events))
}

func (b Body) end(body []byte, n int) (Request, error) {
	return Request{Events: n, Body: append(body, b.Close...)}, nil
}

// AppendMember appends a member of a JSON object, and a comma. name is written as it
// is. The error tells of a value that is no UTF-8.
func AppendMember(dst []byte, name, value string) ([]byte, error) {
	dst = append(append(append(dst, '"'), name...), `":`...)
	dst, err := jsontext.AppendQuote(dst, value)
	return append(dst, ','), err
}
