package webhook

import (
	"fmt"

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

// leading returns how many of the leading events fit into a batch, and the size of a batch
// that includes the first one that does not.
func (o Options) leading(events []transform.Event) (n, size int) {
	if !o.linesInBatch() {
		size = len("[]") - len(",")
	}
	for i, e := range events {
		if size += len(e.Payload()) + len(","); size > o.MaxBodyBytes {
			return i, size
		}
	}
	return len(events), size
}

// encodeBatch returns the body of a batch.
func (o Options) encodeBatch(events []transform.Event) []byte {
	size := len("[]")
	for _, e := range events {
		size += len(e.Payload()) + 1
	}
	body := make([]byte, 0, size)
	if !o.linesInBatch() {
		return transform.AppendBatch(body, events)
	}
	for _, e := range events {
		body = transform.AppendLine(body, e.Payload())
	}
	return body
}

// Compose returns the request that a sink without a Preset sends for the leading events; there
// is at least one. The body may be the event's own bytes and must not be modified. The error
// is the result of the first event alone.
func (o Options) Compose(events []transform.Event) (r Request, err error) {
	r = Request{Events: 1, Body: events[0].Payload()}
	switch {
	case o.Template != nil:
		r.Body, err = o.Template.Render(events[0], o.MaxBodyBytes)
	case o.Mode == transform.Binary:
		r.Body = events[0].Data()
	case o.Mode == transform.Batch:
		n, size := o.leading(events)
		if n == 0 {
			return Request{}, o.tooLarge(size)
		}
		return Request{Events: n, Body: o.encodeBatch(events[:n])}, nil
	}
	if err == nil && len(r.Body) > o.MaxBodyBytes {
		err = o.tooLarge(len(r.Body))
	}
	return r, err
}

func (o Options) tooLarge(size int) error {
	return fmt.Errorf("a body of %d bytes is larger than max_body_bytes, which is %d", size, o.MaxBodyBytes)
}
