package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// connection is what requests that follow one another share: a context that ends with
// the caller's, or when one of the requests takes too long. One timer that is
// set again costs less than a context with a deadline for each request.
type connection struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	timeout time.Duration
}

var errNoAnswer = errors.New("no answer in time")

func newConnection(ctx context.Context, timeout time.Duration) *connection {
	ctx, cancel := context.WithCancelCause(ctx)
	return &connection{
		ctx:     ctx,
		cancel:  cancel,
		timer:   time.AfterFunc(timeout, func() { cancel(errNoAnswer) }),
		timeout: timeout,
	}
}

// next gives a request its time.
func (l *connection) next() { l.timer.Reset(l.timeout) }

func (l *connection) hangUp() {
	l.timer.Stop()
	l.cancel(nil)
}

// maxDrained is how much of an answer is read so that its connection can be
// used again. A longer answer costs the connection.
const maxDrained = 64 << 10

// failure is a request that was not acknowledged.
type failure struct {
	err error // the caller's context's, wrapped, or one that has its class
	// own says that it is the events': the target said so, or was not asked.
	own bool
}

// postOne posts an event in a request of its own.
func (s *Sink) postOne(l *connection, e transform.Event) *failure {
	header, body := s.header, e.Structured()
	var err error
	switch {
	case s.render != nil:
		body, err = s.render.Render(e, s.maxBody)
	case s.mode == transform.Binary:
		body = e.Data()
		header, err = withAttributes(header, e.Headers())
	}
	if err == nil && len(body) > s.maxBody {
		err = s.tooLarge(len(body))
	}
	if err != nil {
		return &failure{err: s.unfit(err), own: true}
	}
	if s.render == nil {
		// A transport may read a body after it returned, when the event's bytes are
		// no longer ours: each request has a copy.
		body = bytes.Clone(body)
	}
	return s.post(l, header, []transform.Event{e}, body)
}

// unfit is the error of an event that is not sent.
func (s *Sink) unfit(err error) *sinks.Error {
	return sinks.Unsendable("%s: not sent: %s", s.target, excerpt(strings.NewReader(err.Error()), s.secrets))
}

func (s *Sink) tooLarge(size int) error {
	return fmt.Errorf("a body of %d bytes is larger than max_body_bytes, which is %d", size, s.maxBody)
}

// post sends one request that carries the events. It keeps body, which must not be
// written to afterwards.
func (s *Sink) post(l *connection, header http.Header, events []transform.Event, body []byte) *failure {
	if f := s.await(l); f != nil {
		return f
	}
	l.next()
	answer, err := s.exchange(l.ctx, "", nil, traced(l.ctx, s.signed(header, events, body)), body)
	if err != nil {
		return &failure{err: s.notAnswered(l.ctx, err)}
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		return &failure{err: s.refused(answer), own: true}
	}
	// The status has acknowledged: what the body does is of no concern.
	if answer.Body != http.NoBody {
		_, _ = io.CopyN(io.Discard, answer.Body, maxDrained)
	}
	return nil
}

// exchange sends one request, by Options.Method where method is empty and to
// Options.URL where to is nil, and returns the answer, whose body the caller closes.
func (s *Sink) exchange(ctx context.Context, method string, to *url.URL, header http.Header, body []byte) (*http.Response, error) {
	if s.gzip && len(body) >= worthZipping {
		header, body = maps.Clone(header), s.zippers.zip(body)
		header["Content-Encoding"] = []string{"gzip"}
	}
	r := s.template.WithContext(ctx)
	if to != nil {
		r.URL, r.Host = to, to.Host
	}
	r.Header = header
	if method != "" {
		r.Method = method
	}
	if r.Method == http.MethodGet {
		return s.transport.RoundTrip(r)
	}
	r.ContentLength = int64(len(body))
	// A reader of a type that net/http knows goes out in one write with the
	// header.
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	return s.transport.RoundTrip(r)
}

// withAttributes is the header of an event in binary mode. The error tells a header
// that is too large.
func withAttributes(common http.Header, attributes iter.Seq2[string, string]) (http.Header, error) {
	header := make(http.Header, len(common)+16)
	maps.Copy(header, common)
	for name, value := range attributes {
		header["ce-"+name] = []string{transform.PercentEncode(value)}
	}
	return header, checkSize(header)
}

func encodeBatch(events []transform.Event) []byte {
	size := 2
	for _, e := range events {
		size += len(e.Structured()) + 1
	}
	return transform.AppendBatch(make([]byte, 0, size), events)
}
