package webhook

import (
	"context"
	"maps"
	"net/http"

	"ndrbridge/internal/traceparent"
)

// traced returns the header of a request with the traceparent of ctx's span (W3C Trace
// Context), unless there is no span or header has a traceparent already.
func traced(ctx context.Context, header http.Header) http.Header {
	parent := traceparent.Of(ctx)
	if parent == "" || header["Traceparent"] != nil {
		return header
	}
	header = maps.Clone(header)
	header["Traceparent"] = []string{parent}
	return header
}
