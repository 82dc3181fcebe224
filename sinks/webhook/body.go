package webhook

import (
	"net/url"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ndrbridge/internal/failure"
	"ndrbridge/transform"
)

// Body composes requests that hold several events, up to the limits of a service.
type Body struct {
	// URL is that of the requests; nil means Options.URL.
	URL *url.URL
	// Encode appends one event to a body.
	Encode func(dst []byte, e transform.Event) ([]byte, error)
	// MaxEvents and MaxBytes limit one body.
	MaxEvents, MaxBytes int
	// MaxEvent is the maximum size of one event in bytes. If it is 0, MaxBytes applies,
	// except that a larger event is sent alone.
	MaxEvent int
	// Open, Between and Close are written before, between and after the events.
	Open, Between, Close string
}

// Compose returns the request for the leading events. The error is that of the first event;
// a later event that cannot be encoded ends the request before it.
func (b Body) Compose(events []transform.Event) (Request, error) {
	size := len(b.Open) + len(b.Close)
	for _, e := range events[:min(len(events), b.MaxEvents)] {
		if size += len(e.Payload()) + 512; size > b.MaxBytes {
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
		longer, err := b.Encode(body, e)
		switch {
		case err == nil && b.MaxEvent > 0 && len(longer)-start > b.MaxEvent:
			err = failure.Unsendable("the event takes %d bytes, and %d are allowed", len(longer)-start, b.MaxEvent)
		case err != nil:
			err = failure.Unsendable("encode the event: %w", err)
		}
		if i == 0 && err != nil {
			return Request{}, err
		}
		if i > 0 && (err != nil || len(longer)+len(b.Close) > b.MaxBytes) {
			return b.end(body[:fits], i) // it is the first of the next request
		}
		body = longer
	}
	return b.end(body, len(events))
}

func (b Body) end(body []byte, n int) (Request, error) {
	return Request{Events: n, Body: append(body, b.Close...), URL: b.URL}, nil
}

// AppendPayload appends the payload of an event. It never fails.
func AppendPayload(dst []byte, e transform.Event) ([]byte, error) {
	return append(dst, e.Payload()...), nil
}

// EncodeJSON returns a request with a JSON body.
func (r Request) EncodeJSON(body any) (Request, error) {
	var err error
	if r.Body, err = json.Marshal(body, json.Deterministic(true)); err != nil {
		return Request{}, failure.Unsendable("encode the request: %w", err)
	}
	return r, nil
}

// AppendMembers appends members of a JSON object, given as names and values in turn, each
// with a trailing comma. It writes names as they are. It returns an error if a value is not
// valid UTF-8.
func AppendMembers(dst []byte, members ...string) (_ []byte, err error) {
	for i := 0; i < len(members); i += 2 {
		dst = append(append(append(dst, '"'), members[i]...), `":`...)
		if dst, err = jsontext.AppendQuote(dst, members[i+1]); err != nil {
			return dst, err
		}
		dst = append(dst, ',')
	}
	return dst, nil
}
