package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// Preset speaks the protocol of one service in the place of CloudEvents. Its
// methods only compute, and are safe for concurrent use: several requests may be
// under way at once. The sink sends what they say, and takes secrets out of the
// errors that they return.
//
// A preset that remembers what it made at the service is a Remembering, too.
type Preset interface {
	// Service says what all requests to the service share.
	Service() Service
	// Compose makes the request for the leading events; there is one at least. An
	// error is the result of the first event alone, and a *sinks.Error.
	Compose(events []transform.Event) (Request, error)
	// Judge says what an answer means: nil that all events of the request are
	// durable, sinks.EventErrors the result of each, a *sinks.Error that of all, where
	// Rejected says that one of them is at fault. Where the answer does not decide
	// it yet, Judge returns the request that is to be sent next instead.
	//
	// Answers of 1xx and 3xx do not come here: they halt.
	Judge(Request, Answer) (next *Request, err error)
}

// Service is what all requests to a service share.
type Service struct {
	// Header goes with every request, where Options.Headers has not another value.
	Header map[string]string
	// Secrets must not show in errors, beside those in Header and the URL.
	Secrets []string
	// RequestsPerSecond is how many requests the service takes for long; 0: as many
	// as come.
	RequestsPerSecond float64
	// Undivided says that events that come together belong together, however large
	// they are: Options.Concurrency does not divide them.
	Undivided bool
}

// Request is one request to a service.
type Request struct {
	// Events is how many of the leading events it carries; 1 at least.
	Events int
	// Nothing says that there is nothing to send: the events are delivered once what
	// Finishing does with them is done. The fields below say nothing then, but About.
	Nothing bool
	// Method is GET, whose body is empty, where something is only read; empty:
	// Options.Method.
	Method string
	// Once says that the request makes something: where the connection breaks before an
	// answer, it is not sent again without the preset's word.
	Once bool
	Body []byte
	// URL is where it goes, at the same host; nil: Options.URL.
	URL *url.URL
	// Cookies go with it, beside those that Options.Headers has.
	Cookies []*http.Cookie
	// After is how long to wait before it is sent.
	After time.Duration
	// About is the preset's own, for its Judge and Learn; the sink does not look at it.
	About any
}

// Answer is what a service answered.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// maxAnswer is how much of an answer is read: more than any has that says something
// of each of a request's events.
const maxAnswer = 16 << 20

// sendPreset sends the events as the preset says, those of different keys in
// several requests at once where they are many.
func (s *Sink) sendPreset(ctx context.Context, events []transform.Event) error {
	return s.inParts(events, func(p part) *failure {
		if err := s.sendInTurn(ctx, p.events); err != nil {
			return &failure{err: err}
		}
		return nil
	})
}

// sendInTurn sends the events in one request after the other, as few as carry
// them all.
func (s *Sink) sendInTurn(ctx context.Context, events []transform.Event) error {
	var t results
	for left := events; len(left) > 0; {
		known, err := s.known(ctx, left)
		if err != nil {
			t.add(len(left), err)
			break
		}
		request, err := s.compose(left, known)
		if err != nil {
			t.add(1, sinks.EventErrors{s.report(err)})
			left = left[1:]
			continue
		}
		if request.Events < 1 || request.Events > len(left) {
			return fmt.Errorf("%s: a request for %d of %d events", s.target, request.Events, len(left))
		}
		if request.Nothing {
			err = s.finish(ctx, request, Answer{})
		} else if len(request.Body) > s.maxBody {
			err = s.unfit(s.tooLarge(len(request.Body)))
		} else {
			err = s.converse(ctx, request)
		}
		left = left[request.Events:]
		if !t.add(request.Events, err) {
			t.stop(len(left), err)
			break
		}
	}
	return t.result()
}

// converse sends a request, and those that follow from the answers, until one
// says what became of the events. All of it takes one timeout, from when the first
// may be sent.
func (s *Sink) converse(ctx context.Context, request Request) error {
	if err := s.waitForRate(ctx); err != nil {
		return err
	}
	l := newConnection(ctx, s.timeout)
	defer l.hangUp()
	for {
		answer, err := s.ask(l, request)
		if err != nil {
			return err
		}
		next, err := s.preset.Judge(request, answer)
		if err != nil {
			return s.report(err)
		}
		if err := s.learn(ctx, request, answer); err != nil {
			return err
		}
		if next == nil {
			return s.finish(ctx, request, answer)
		}
		request = *next
		select {
		case <-time.After(request.After):
		case <-l.ctx.Done():
			return s.notAnswered(l.ctx, l.ctx.Err())
		}
		if err := s.waitForRate(l.ctx); err != nil {
			return err
		}
	}
}

// waitForRate waits until the service takes another request.
func (s *Sink) waitForRate(ctx context.Context) error {
	if s.limiter == nil {
		return nil
	}
	if err := s.limiter.Wait(ctx); err != nil {
		return fmt.Errorf("%s: wait for the service's rate: %w", s.target, err)
	}
	return nil
}

// ask sends one request and reads its answer.
func (s *Sink) ask(l *connection, request Request) (Answer, error) {
	header := s.header
	if request.Once {
		header = header.Clone()
		header.Del("Idempotency-Key") // by which the transport may repeat it
	}
	if len(request.Cookies) > 0 {
		with := http.Request{Header: header.Clone()}
		for _, c := range request.Cookies {
			with.AddCookie(c)
		}
		header = with.Header
	}
	answer, err := s.exchange(l.ctx, request.Method, request.URL, header, request.Body)
	if err != nil {
		return Answer{}, s.notAnswered(l.ctx, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 == 3 || answer.StatusCode/100 == 1 {
		return Answer{}, s.refused(answer)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil && answer.StatusCode/100 == 2 {
		return Answer{}, s.notAnswered(l.ctx, fmt.Errorf("the answer breaks off: %w", err))
	}
	if err != nil {
		body = []byte(s.secrets.HideBeginning(string(body)))
	}
	return Answer{Status: answer.StatusCode, Header: answer.Header, Body: body}, nil
}

// report names the target in the errors of a preset, and hides secrets in them.
func (s *Sink) report(err error) error {
	if each, ok := errors.AsType[sinks.EventErrors](err); ok {
		told := make(sinks.EventErrors, len(each))
		for i, err := range each {
			if err != nil && err != sinks.ErrNotTried {
				err = s.report(err)
			}
			told[i] = err
		}
		return told
	}
	class, wait := sinks.ClassOf(err)
	return &sinks.Error{
		Class: class, RetryAfter: wait, Unsent: sinks.IsUnsent(err),
		Err: errors.New(s.target + ": " + excerpt(strings.NewReader(err.Error()), s.secrets)),
	}
}
