package webhook

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"

	"ndrbridge/transform"
)

// errNoAnswer is the cause of a context that ended because of the timeout.
var errNoAnswer = errors.New("no answer in time")

// withTimeout returns a context for one request, or for those that belong to it.
func (s *Sink) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.o.Timeout, errNoAnswer)
}

// maxDrained is how much of an answer is read to keep its connection reusable. After a
// longer answer the connection is closed.
const maxDrained = 64 << 10

// do sends one request and returns the answer; the caller closes its body. An empty
// method means Options.Method, a nil URL Options.URL.
func (s *Sink) do(ctx context.Context, method string, target *url.URL, header http.Header, body []byte) (*http.Response, error) {
	if s.o.Gzip && len(body) >= minGzipBytes {
		header, body = maps.Clone(header), s.gzipPool.compress(body)
		header["Content-Encoding"] = []string{"gzip"}
	}
	r := s.request.WithContext(ctx)
	if target != nil {
		r.URL, r.Host = target, target.Host
	}
	r.Header = header
	if method != "" {
		r.Method = method
	}
	if r.Method == http.MethodGet || len(body) == 0 {
		return s.authorized(r)
	}
	r.ContentLength = int64(len(body))
	// net/http sends the body of a *bytes.Reader in one write with the header.
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	return s.authorized(r)
}

// withAttributes returns the header of an event in binary mode, or an error if it is
// too large.
func withAttributes(common http.Header, attributes iter.Seq2[string, string]) (http.Header, error) {
	header := make(http.Header, len(common)+16)
	maps.Copy(header, common)
	for name, value := range attributes {
		header["ce-"+name] = []string{transform.PercentEncode(value)}
	}
	return header, checkSize(header)
}
