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

	"ndrbridge/sinks"
)

// Handshake asks a receiver whether it wants events, before the first is sent
// (CloudEvents: HTTP 1.1 Web Hooks 1.0.2, section 4). Consent is asked for without a
// callback: who would give it later is asked again.
type Handshake struct {
	// Origin is the DNS name by which the receiver knows who sends. Every request
	// that carries events names it, too, in the field Origin.
	Origin string
	// Rate is how many requests a minute are asked for; 1 at least.
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
		return errors.New("handshake: the origin is no DNS name")
	case h.Rate < 1:
		return fmt.Errorf("handshake: a rate of %d requests a minute", h.Rate)
	}
	return nil
}

// agree does the handshake once. Events follow only when the receiver has allowed
// them; where it has not, the sink halts, and who opens it again asks again.
func (s *Sink) agree(ctx context.Context) error {
	if s.handshake == nil || s.agreed {
		return nil
	}
	l := newConnection(ctx, s.timeout)
	defer l.hangUp()
	question := s.template.WithContext(l.ctx)
	question.Method = http.MethodOptions
	question.Header = s.header.Clone()
	question.Header.Del("Content-Type")
	question.Header.Del("Origin")
	question.Header.Set(requestOrigin, s.handshake.Origin)
	question.Header.Set(requestRate, strconv.Itoa(s.handshake.Rate))
	answer, err := s.transport.RoundTrip(question)
	if err != nil {
		return s.notAnswered(l.ctx, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		return s.handshakeRefused(answer)
	}
	_, _ = io.CopyN(io.Discard, answer.Body, maxDrained)
	if err := s.allowed(answer.Header); err != nil {
		return sinks.Errorf(sinks.Halted, "%s: handshake: %w", s.target, err)
	}
	s.agreed = true
	return nil
}

// handshakeRefused is never Rejected: the receiver has seen no event.
func (s *Sink) handshakeRefused(answer *http.Response) error {
	err := s.refused(answer)
	if err.Class == sinks.Rejected {
		err.Class = sinks.Halted
	}
	err.Err = fmt.Errorf("handshake (OPTIONS, before any event): %w", err.Err)
	if err.Class == sinks.Halted {
		err.Err = fmt.Errorf("%w; take handshake out for a receiver that knows none", err.Err)
	}
	return err
}

// allowed reads the receiver's consent, and keeps the rate that goes with it.
func (s *Sink) allowed(answer http.Header) error {
	switch origin := strings.TrimSpace(answer.Get(allowedOrigin)); {
	case origin == "":
		return errors.New("the receiver did not consent: its answer has no WebHook-Allowed-Origin; " +
			"let it allow this bridge, or take handshake out for a receiver that knows none")
	case origin != "*" && !strings.EqualFold(origin, s.handshake.Origin):
		return fmt.Errorf("the receiver allows the origin %q, not %q", excerpt(strings.NewReader(origin), s.secrets), s.handshake.Origin)
	}
	perMinute := s.handshake.Rate // where it says nothing, what was asked for
	switch text := strings.TrimSpace(answer.Get(allowedRate)); text {
	case "":
	case "*":
		return nil
	default:
		var err error
		if perMinute, err = strconv.Atoi(text); err != nil || perMinute < 1 {
			return fmt.Errorf("the receiver allows %q requests a minute, which is no number above 0", excerpt(strings.NewReader(text), s.secrets))
		}
	}
	s.limiter = rate.NewLimiter(rate.Limit(perMinute)/60, 1)
	return nil
}

// await waits until the rate that was agreed on lets a request go: not longer than a
// request may take, since what was acknowledged before is to be settled meanwhile.
func (s *Sink) await(l *connection) *failure {
	if s.limiter == nil {
		return nil
	}
	l.timer.Stop() // no request is under way
	turn := s.limiter.Reserve()
	wait := turn.Delay()
	if wait > s.timeout {
		turn.Cancel()
		err := sinks.Errorf(sinks.Throttled, "%s: the rate that the receiver allows is used up", s.target)
		err.RetryAfter = wait
		return &failure{err: err}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-l.ctx.Done():
		return &failure{err: s.notAnswered(l.ctx, l.ctx.Err())}
	}
}
