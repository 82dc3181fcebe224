package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/redact"
	"ndrbridge/transform"
)

// Preset speaks the protocol of one service instead of CloudEvents. Its functions only
// compute, and must be safe for concurrent use: several requests may be in flight at
// once. The sink sends the requests they return. Their errors quote answers by Answer.Quote.
type Preset struct {
	// Header is sent with every request; Options.Headers takes precedence.
	Header map[string]string
	// Bearer is what precedes Options.Bearer: the name of its header field, a colon and a blank, and
	// a scheme if there is one. Empty: "Authorization: Bearer ".
	Bearer string
	// Secrets are redacted in errors, in addition to those in Header and the URL.
	Secrets []string
	// RequestsPerSecond is the sustained request rate that the service accepts: as it
	// documents, or what its default configuration accepts. 0 means no limit.
	RequestsPerSecond float64
	// Undivided keeps the events of a batch together regardless of its size:
	// Options.Concurrency does not split it.
	Undivided bool
	// Checks are sent by Sink.Check, one after another until one fails. If there are none,
	// the service cannot be checked without sending an event.
	Checks []CheckRequest
	// Inspect, unless nil, is called by Sink.Check after the Checks, if none failed. Its requests
	// change nothing.
	Inspect func(ctx context.Context, c *Conversation) []finding.Finding

	// Compose returns the request for the leading events; there is at least one. An
	// error must be a *failure.Error, and is the result of the first event alone.
	Compose func(events []transform.Event) (Request, error)
	// Judge interprets the answer to it. A nil error means that all events of the request are
	// durable; failure.EventErrors holds the result of each; a *failure.Error applies to
	// all of them, and if its class is Rejected, to one that is not identified. A 2xx
	// whose body is not the service's own is failure.Transient, or failure.Halted if url is
	// probably wrong.
	//
	// Answers of 1xx and 3xx, and HTML pages with 2xx, halt the sink and are not passed to
	// Judge. Nil means that Options.Expect decides, or the status alone, even if the body is
	// incomplete.
	Judge func(Request, Answer) error

	// Converse, unless nil, delivers the leading events of a batch instead of Compose and Judge,
	// by any number of requests, and returns how many events that are, at least 1, and their
	// result: that of Judge. Compose then only shows what the first event becomes.
	Converse func(ctx context.Context, c *Conversation, events []transform.Event) (n int, err error)
	// Key returns the key under which Converse remembers a value of an event, such as the
	// message that later versions of a detection edit: DetectionKey for a detection's; empty if
	// nothing is remembered. If Key is nil, nothing is. The values are in Options.Memory.
	//
	// After a crash between an answer and Conversation.Remember, the object is created again. A
	// preset that must not create duplicates queries the service first.
	Key func(transform.Event) string
	// Poll, unless nil, reads from the service beside the deliveries, by a few requests. It returns
	// how long to wait before the next call; the wait after an error is up to the caller.
	Poll func(ctx context.Context, c *Conversation) (wait time.Duration, err error)
}

// Request is one request to a service.
type Request struct {
	// Events is the number of leading events that the request carries; at least 1.
	Events int
	// Nothing means that there is nothing to send: the events are delivered. The fields below are
	// ignored.
	Nothing bool
	// Method is GET, without a body, for a read; empty means Options.Method.
	Method string
	// Once means that the request is not idempotent: if the connection breaks before an
	// answer, the transport does not repeat it.
	Once bool
	Body []byte
	// URL is the target, on the same host; nil means Options.URL.
	URL *url.URL
	// Cookies are sent in addition to those in Options.Headers.
	Cookies []*http.Cookie
	// After is how long to wait before the request is sent; a Conversation's first is not delayed.
	After time.Duration

	header http.Header // of the request; nil: that of every request
}

// Answer is a service's response. Its texts may repeat the sink's secrets: quote them by
// Quote.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte

	redirect string // where an answer of 3xx points
	path     string // of the request, without secrets
	sent     int64  // bytes of the request's body
	secrets  redact.Secrets
}

// Quote returns the beginning of a text of the service for an error or a finding: one line of
// printable characters, without the sink's secrets.
func (a Answer) Quote(text string) string { return excerpt(strings.NewReader(text), a.secrets) }

// QuoteBody is Quote for the body.
func (a Answer) QuoteBody() string { return excerpt(bytes.NewReader(a.Body), a.secrets) }

// maxAnswer limits how much of an answer is read. No answer with a result for each
// event is larger.
const maxAnswer = 16 << 20

// sendLeading delivers the leading events. It returns how many events that are, and their result.
func (s *Sink) sendLeading(ctx context.Context, events []transform.Event) (n int, err error) {
	c := Conversation{sink: s, events: events}
	if c.known, err = s.known(ctx, events); err != nil {
		return len(events), err
	}
	if s.preset.Converse == nil {
		n, err = s.composeAndJudge(ctx, &c)
	} else {
		n, err = s.preset.Converse(ctx, &c, events)
	}
	switch {
	case err == nil && (n < 1 || n > len(events)):
		return len(events), fmt.Errorf("%s: the preset delivered %d of %d events", s.target, n, len(events))
	case err == nil:
		c.reportReceipt(ctx)
	case err != c.failed:
		err = s.report(err)
	}
	return n, err
}

// composeAndJudge delivers the leading events by one request.
func (s *Sink) composeAndJudge(ctx context.Context, c *Conversation) (n int, err error) {
	request, err := s.preset.Compose(c.events)
	if err != nil {
		return 1, err
	}
	if n = request.Events; request.Nothing || n < 1 || n > len(c.events) {
		return n, nil
	}
	answer, err := c.exchange(ctx, request)
	if c.failed = err; err != nil {
		return n, err
	}
	return n, s.judge(request, answer)
}

// notSent returns the error of events that are refused before they are sent.
func (s *Sink) notSent(err error) *failure.Error {
	return failure.Unsendable("not sent: %s", s.excerpt(err.Error()))
}

// judge interprets an answer, as Preset.Judge does.
func (s *Sink) judge(r Request, a Answer) error {
	switch {
	case a.Status/100 == 2 && s.o.Expect != nil:
		return s.o.Expect.check(a)
	case s.preset.Judge == nil || a.isPage():
		return a.Refusal()
	}
	return s.preset.Judge(r, a)
}

// waitForRate waits until the rate limit allows another request.
func (s *Sink) waitForRate(ctx context.Context) error {
	if s.limiter == nil {
		return nil
	}
	if err := s.limiter.Wait(ctx); err != nil {
		return fmt.Errorf("%s: wait for the rate limit: %w", s.target, err)
	}
	return nil
}

// roundTrip sends one request for the events and reads its answer. It retains the body, which
// must not be modified afterwards.
func (s *Sink) roundTrip(ctx context.Context, request Request, events []transform.Event) (Answer, error) {
	header := request.header
	if header == nil {
		header = s.request.Header
	}
	header = s.signed(header, events, request.Body)
	if request.Once {
		header = header.Clone()
		header.Del("Idempotency-Key") // without it the transport does not repeat the request
	}
	if len(request.Cookies) > 0 {
		with := http.Request{Header: header.Clone()}
		for _, c := range request.Cookies {
			with.AddCookie(c)
		}
		header = with.Header
	}
	return s.exchange(ctx, request.Method, request.URL, header, request.Body)
}

// exchange is do, and reads the answer. It returns an error for one of 1xx or 3xx.
func (s *Sink) exchange(ctx context.Context, method string, target *url.URL, header http.Header, sent []byte) (Answer, error) {
	answer, err := s.do(ctx, method, target, header, sent)
	if err != nil {
		return Answer{}, s.notAnswered(ctx, err)
	}
	defer answer.Body.Close()
	a := Answer{Status: answer.StatusCode, Header: answer.Header, secrets: s.hidden()}
	a.path, a.sent = s.shownPath(answer.Request.URL), answer.Request.ContentLength
	switch a.Status / 100 {
	case 1: // the body of 101 is the connection
		return Answer{}, s.report(a.Refusal())
	case 3:
		a.redirect = s.location(answer)
	}
	limit := int64(maxDrained)
	parsed := s.preset.Judge != nil || s.preset.Converse != nil
	if parsed {
		limit = maxAnswer
	}
	bodyDecides := parsed || s.o.Expect != nil && len(s.o.Expect.JSON) > 0
	a.Body, err = s.read(answer, limit)
	switch {
	case a.redirect != "":
		return Answer{}, s.report(a.Refusal())
	case err != nil && bodyDecides:
		return Answer{}, s.notAnswered(ctx, err)
	}
	return a, nil
}

// read returns the body of an answer, up to limit. It returns an error too if that of a 2xx is
// incomplete.
func (s *Sink) read(answer *http.Response, limit int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(answer.Body, limit))
	if err == nil {
		return body, nil
	}
	body = []byte(s.hidden().HideBeginning(string(body)))
	if answer.StatusCode/100 == 2 {
		return body, fmt.Errorf("the answer is incomplete: %w", err)
	}
	return body, nil
}

// report adds the target to a preset's error.
func (s *Sink) report(err error) error {
	if each, ok := errors.AsType[failure.EventErrors](err); ok {
		reported := make(failure.EventErrors, len(each))
		for i, err := range each {
			if err != nil && err != failure.ErrNotTried {
				err = s.report(err)
			}
			reported[i] = err
		}
		return reported
	}
	class, wait := failure.ClassOf(err)
	return &failure.Error{
		Class: class, Scope: failure.ScopeOf(err), RetryAfter: wait, Unsent: failure.IsUnsent(err),
		Cause: failure.CauseOf(err), Err: errors.New(s.target + ": " + err.Error()),
	}
}
