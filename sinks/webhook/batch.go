package webhook

import (
	"bytes"
	"fmt"
	"math"

	"ndrbridge/transform"
	"ndrbridge/transform/format"
)

// The media types of documents that are not CloudEvents.
const (
	contentTypeLines = "application/x-ndjson"
	contentTypeText  = "text/plain; charset=utf-8"
)

// isDocument reports whether events are sent in another format than CloudEvents.
func (o Options) isDocument() bool { return o.Format != "" && o.Format != format.CloudEvents }

// contentType returns the content type of the mode and the format, the preset or the
// template.
func (o Options) contentType() string {
	switch {
	case o.Preset != nil || o.Template != nil || o.Mode == transform.Binary:
		return transform.ContentTypeData
	case o.Format.IsText():
		return contentTypeText
	case o.linesInBatch():
		return contentTypeLines
	case o.isDocument():
		return transform.ContentTypeData
	case o.Mode == transform.Batch:
		return transform.ContentTypeBatch
	}
	return transform.ContentTypeStructured
}

// linesInBatch reports whether a batch holds one document per line.
func (o Options) linesInBatch() bool { return o.Lines || o.Format.IsText() }

// batch returns what composes the bodies of batches.
func (o Options) batch() Body {
	b := Body{Encode: AppendPayload, MaxEvents: math.MaxInt, MaxBytes: o.MaxBodyBytes}
	if !o.linesInBatch() {
		b.Open, b.Between, b.Close = "[", ",", "]"
		return b
	}
	b.Encode = func(dst []byte, e transform.Event) ([]byte, error) {
		return transform.AppendLine(dst, e.Payload()), nil
	}
	return b
}

// Compose returns the request that a sink without a Preset sends for the leading events; there
// is at least one. The error is the result of the first event alone.
func (o Options) Compose(events []transform.Event) (r Request, err error) {
	r.Events = 1
	// The transport may read the body after RoundTrip has returned, when the event's bytes may be
	// reused: each request needs a copy.
	switch {
	case o.Template != nil:
		r.Body, err = o.Template.Render(events[0], o.MaxBodyBytes)
	case o.Mode == transform.Binary:
		r.Body = bytes.Clone(events[0].Data())
	case o.Mode == transform.Batch:
		r, err = o.batch().Compose(events)
	default:
		r.Body = bytes.Clone(events[0].Payload())
	}
	if err == nil && len(r.Body) > o.MaxBodyBytes {
		err = o.tooLarge(r.Body)
	}
	return r, err
}

func (o Options) tooLarge(body []byte) error {
	return fmt.Errorf("a body of %d bytes is larger than max_body_bytes, which is %d", len(body), o.MaxBodyBytes)
}
