package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"ndrbridge/preflight"
	"ndrbridge/sinks"
)

// TryByReplay advises how a webhook is tried that has no dry run.
const TryByReplay = "send a few events to be sure, on a running bridge with ndrbridge replay SINK --since -1m"

// Asking is a Preset whose service can be asked whether it would take events, without
// any being sent.
type Asking interface {
	Preset
	// Questions are asked one after the other, until the answer to one is a failure;
	// none: the service cannot be asked.
	Questions() []Question
}

// Question is a request that changes nothing.
type Question struct {
	// Step is what it finds out, such as token.
	Step string
	// Method is GET where it is empty; URL is where it goes; Body has JSON.
	Method string
	URL    *url.URL
	Body   []byte
	// Judge says what an answer means, in a Finding without Step. What the service
	// said is looked through for secrets after it.
	Judge func(Answer) preflight.Finding
}

// Finding is what an answer means by its status: that the question is answered by
// good, that the service cannot be asked now, or that it refuses, and what to do then.
func (a Answer) Finding(good, advice string) preflight.Finding {
	err := a.Refusal()
	if err == nil {
		return preflight.Finding{Result: preflight.OK, Detail: good}
	}
	f := preflight.Finding{Result: preflight.Failed, Detail: strings.TrimSpace(statusText(a.Status) + " " + string(a.Body[:min(len(a.Body), maxDrained)])), Advice: advice}
	if class, _ := sinks.ClassOf(err); class == sinks.Transient || class == sinks.Throttled {
		f.Result, f.Advice = preflight.Warning, "it may pass by itself; check again later"
	}
	return f
}

// Check tries the way to the target, and asks what can be asked without sending an
// event: by the handshake, or in a service's own words. It must not run beside Send.
func (s *Sink) Check(ctx context.Context, now func() time.Time) []preflight.Finding {
	return preflight.Hide(s.try(ctx, now), s.secrets.Hide)
}

func (s *Sink) try(ctx context.Context, now func() time.Time) []preflight.Finding {
	found, reached := s.reach(ctx, now)
	if !reached {
		return found
	}
	if s.template.URL.Scheme == "http" {
		found = append(found, preflight.Finding{
			Step: "tls", Result: preflight.Warning, Detail: "plain http: whoever is on the way can read and change what is sent, secrets among it",
			Advice: "use https in url",
		})
	}
	if s.handshake != nil {
		if err := s.agree(ctx); err != nil {
			return append(found, preflight.Finding{
				Step: "handshake", Result: preflight.Failed, Detail: err.Error(),
				Advice: "let the receiver allow this bridge, or take handshake out for one that knows none",
			})
		}
		return append(found, preflight.Finding{Step: "handshake", Result: preflight.OK, Detail: "the receiver allows events from " + s.handshake.Origin})
	}
	var questions []Question
	if asking, ok := s.preset.(Asking); ok {
		questions = asking.Questions()
	}
	if len(questions) == 0 {
		detail := "it can be reached, and has no way to be asked without an event"
		if s.transport.Proxy != nil {
			detail = "its proxy can be reached; what lies behind has no way to be asked without an event"
		}
		return append(found, preflight.Finding{
			Step: "delivery", Result: preflight.Untried, Detail: detail,
			Advice: "look at what would be sent with ndrbridge render, and " + TryByReplay,
		})
	}
	for _, q := range questions {
		f := s.question(ctx, q)
		found = append(found, f)
		if f.Result == preflight.Failed {
			break
		}
	}
	return found
}

// reach connects as a request would, up to the proxy where there is one, and sends
// nothing.
func (s *Sink) reach(ctx context.Context, now func() time.Time) (found []preflight.Finding, reached bool) {
	l := newConnection(ctx, s.timeout)
	defer l.hangUp()
	target := s.template.URL
	way := &preflight.Path{Address: preflight.HostPort(target), Key: "url", Now: now}
	where := way.Address
	secure := target.Scheme == "https"
	if s.transport.Proxy != nil {
		if proxy, err := s.transport.Proxy(s.template); err == nil && proxy != nil {
			way.Proxy = preflight.HostPort(proxy)
			where, secure = way.Proxy, false
		}
	}
	config := s.transport.TLSClientConfig
	if config == nil {
		config = &tls.Config{}
	}
	config = way.Secure(config)
	err := func() error {
		conn, err := s.transport.DialContext(way.Watch(l.ctx), "tcp", where)
		if err != nil {
			return err
		}
		defer conn.Close()
		if !secure {
			return nil
		}
		if config.ServerName == "" {
			config.ServerName = target.Hostname()
		}
		return tls.Client(conn, config).HandshakeContext(l.ctx)
	}()
	found, explained := way.Findings(err)
	if err == nil && !secure && way.Proxy == "" && preflight.ExpectsTLS(l.ctx, where) {
		return append(found, preflight.PlainToTLS("https")), false
	}
	if err != nil && !explained {
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(context.Cause(l.ctx), errNoAnswer) {
			err = errors.New("the TLS handshake is not answered")
		}
		found = append(found, preflight.Finding{
			Step: "tls", Result: preflight.Failed, Detail: excerpt(strings.NewReader(err.Error()), s.secrets), Advice: "does the other side speak TLS on this port? Check scheme and port in url",
		})
	}
	return found, err == nil
}

// question asks, and judges the answer.
func (s *Sink) question(ctx context.Context, q Question) preflight.Finding {
	l := newConnection(ctx, s.timeout)
	defer l.hangUp()
	header := s.header.Clone()
	if header.Del("Content-Type"); q.Body != nil {
		header.Set("Content-Type", "application/json")
	}
	method := q.Method
	if method == "" {
		method = http.MethodGet
	}
	answer, err := s.exchange(l.ctx, method, q.URL, header, q.Body)
	if err != nil {
		return preflight.Finding{Step: q.Step, Result: preflight.Failed, Detail: s.notAnswered(l.ctx, err).Error(), Advice: "check url, proxy and tls"}
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 == 3 || answer.StatusCode/100 == 1 {
		return preflight.Finding{Step: q.Step, Result: preflight.Failed, Detail: s.refused(answer).Error(), Advice: "check url"}
	}
	const enough = 1 << 20 // more than any question is answered with
	body, err := io.ReadAll(io.LimitReader(answer.Body, enough))
	if err != nil {
		return preflight.Finding{Step: q.Step, Result: preflight.Failed, Detail: s.notAnswered(l.ctx, fmt.Errorf("the answer breaks off: %w", err)).Error(), Advice: "check url and proxy"}
	}
	f := q.Judge(Answer{Status: answer.StatusCode, Header: answer.Header, Body: body})
	f.Step = q.Step
	f.Detail = excerpt(strings.NewReader(f.Detail), s.secrets)
	return f
}
