package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"ndrbridge/internal/failure"
)

// Handshake asks the receiver for its consent before the first event is sent
// (CloudEvents: HTTP 1.1 Web Hooks 1.0.2, section 4). It registers no callback: a
// receiver that consents later is asked again.
type Handshake struct {
	// Origin is the DNS name that identifies the sender. Every request that carries
	// events has it in the Origin field, too.
	Origin string
	// Rate is the requested rate in requests per minute; at least 1.
	Rate int
}

// The header fields of the handshake.
const (
	requestOrigin = "Webhook-Request-Origin"
	requestRate   = "Webhook-Request-Rate"
	allowedOrigin = "Webhook-Allowed-Origin"
	allowedRate   = "Webhook-Allowed-Rate"
)

func (h *Handshake) check() error {
	switch {
	case h == nil:
		return nil
	case h.Origin == "" || !validName(h.Origin):
		return errors.New("handshake: the origin is not a DNS name")
	case h.Rate < 1:
		return fmt.Errorf("handshake: the rate is %d requests per minute; it must be at least 1", h.Rate)
	}
	return nil
}

// ensureHandshake performs the handshake unless it has succeeded before. If the
// receiver does not allow events, the sink halts; the handshake is repeated when it is
// resumed.
func (s *Sink) ensureHandshake(ctx context.Context) error {
	if s.o.Handshake == nil || s.handshakeDone {
		return nil
	}
	d := newDeadline(ctx, s.o.Timeout)
	defer d.stop()
	request := s.request.WithContext(d.ctx)
	request.Method = http.MethodOptions
	request.Header = s.request.Header.Clone()
	request.Header.Del("Content-Type")
	request.Header.Del("Origin")
	request.Header.Set(requestOrigin, s.o.Handshake.Origin)
	request.Header.Set(requestRate, strconv.Itoa(s.o.Handshake.Rate))
	answer, err := s.authorized(request)
	if err != nil {
		return s.notAnswered(d.ctx, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		return s.handshakeRefused(answer)
	}
	_, _ = io.CopyN(io.Discard, answer.Body, maxDrained)
	if err := s.readConsent(answer.Header); err != nil {
		return failure.Errorf(failure.Halted, "%s: handshake: %w", s.target, err)
	}
	s.handshakeDone = true
	return nil
}

// handshakeRefused returns the error of a refused handshake. Its class is never
// Rejected, since the receiver has not seen an event.
func (s *Sink) handshakeRefused(answer *http.Response) error {
	err := s.refused(answer)
	if err.Class == failure.Rejected {
		err.Class = failure.Halted
	}
	err.Err = fmt.Errorf("handshake (OPTIONS, before any event): %w", err.Err)
	if err.Class == failure.Halted {
		err.Err = fmt.Errorf("%w; remove handshake if the receiver does not support it", err.Err)
	}
	return err
}

// readConsent checks the receiver's consent and sets the rate limit that goes with it.
func (s *Sink) readConsent(answer http.Header) error {
	switch origin := strings.TrimSpace(answer.Get(allowedOrigin)); {
	case origin == "":
		return errors.New("the receiver did not consent: its answer has no WebHook-Allowed-Origin field; " +
			"let it allow this bridge, or remove handshake if it does not support it")
	case origin != "*" && !strings.EqualFold(origin, s.o.Handshake.Origin):
		return fmt.Errorf("the receiver allows the origin %q, not %q", s.excerpt(origin), s.o.Handshake.Origin)
	}
	perMinute := s.o.Handshake.Rate // the default if the answer has no rate
	switch text := strings.TrimSpace(answer.Get(allowedRate)); text {
	case "":
	case "*":
		return nil
	default:
		var err error
		if perMinute, err = strconv.Atoi(text); err != nil || perMinute < 1 {
			return fmt.Errorf("the receiver allows %q requests per minute, which is not a number above 0", s.excerpt(text))
		}
	}
	s.limiter = rate.NewLimiter(rate.Limit(perMinute)/60, 1)
	return nil
}

// await waits until the negotiated rate allows another request. It waits no longer than
// a request may take, because events acknowledged earlier are to be committed in the
// meantime; after that it returns a Throttled error.
func (s *Sink) await(d *deadline) error {
	if s.limiter == nil {
		return nil
	}
	d.timer.Stop() // no request is in flight
	reservation := s.limiter.Reserve()
	wait := reservation.Delay()
	if wait > s.o.Timeout {
		reservation.Cancel()
		err := failure.Errorf(failure.Throttled, "%s: the rate that the receiver allows is exceeded", s.target)
		err.RetryAfter = wait
		return err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-d.ctx.Done():
		return s.notAnswered(d.ctx, d.ctx.Err())
	}
}
