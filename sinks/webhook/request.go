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

	"ndrbridge/internal/failure"
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

// postOne posts one event in its own request. Its error is that of post.
func (s *Sink) postOne(ctx context.Context, e transform.Event) error {
	header, events := s.request.Header, []transform.Event{e}
	request, err := s.o.Compose(events)
	if err == nil && s.o.Mode == transform.Binary {
		header, err = withAttributes(header, e.Headers())
	}
	if err != nil {
		return s.unsendable(err)
	}
	if s.o.Template == nil {
		// The transport may read the body after RoundTrip has returned, when the
		// event's bytes may be reused: each request needs a copy.
		request.Body = bytes.Clone(request.Body)
	}
	return s.post(ctx, header, events, request.Body)
}

// unsendable returns the error of an event that is not sent.
func (s *Sink) unsendable(err error) *failure.Error {
	return failure.Unsendable("%s: not sent: %s", s.target, s.excerpt(err.Error()))
}

// post sends one request that carries the events. It retains body, which must not be
// modified afterwards. The error is a *failure.Error or the caller's wrapped context error.
func (s *Sink) post(ctx context.Context, header http.Header, events []transform.Event, body []byte) error {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	answer, err := s.do(ctx, "", nil, s.signed(header, events, body), body)
	if err != nil {
		return s.notAnswered(ctx, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		return s.refused(answer)
	}
	// The status acknowledges the events: an error of the body does not matter.
	if answer.Body != http.NoBody {
		_, _ = io.CopyN(io.Discard, answer.Body, maxDrained)
	}
	return nil
}

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
