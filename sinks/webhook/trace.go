package webhook

import (
	"context"
	"maps"
	"net/http"

	"ndrbridge/internal/traceparent"
)

// traced is the header of a request within the span of a delivery, which it names as
// W3C Trace Context says, unless header names another.
func traced(ctx context.Context, header http.Header) http.Header {
	parent := traceparent.Of(ctx)
	if parent == "" || header["Traceparent"] != nil {
		return header
	}
	header = maps.Clone(header)
	header["Traceparent"] = []string{parent}
	return header
}
