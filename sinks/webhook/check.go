package webhook

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/finding"
	"ndrbridge/sinks"
)

// TryBySend is the advice for testing a webhook that has no dry run.
const TryBySend = "send a test event with ndrbridge send SINK"

// CheckRequest is a request that changes nothing at the service.
type CheckRequest struct {
	// Step names what it checks, such as token.
	Step string
	// Method defaults to GET. Body is JSON.
	Method string
	URL    *url.URL
	Body   []byte
	// Judge interprets the answer. It leaves Step unset. Secrets are removed from the
	// Finding afterwards.
	Judge func(Answer) finding.Finding
}

// Finding classifies the answer by its status: OK with good as its detail, a warning if
// the service is temporarily unavailable, or a failure with advice.
func (a Answer) Finding(good, advice string) finding.Finding {
	err := a.Refusal()
	if err == nil {
		return finding.Finding{Result: finding.OK, Detail: good}
	}
	f := finding.Finding{Result: finding.Failed, Detail: strings.TrimSpace(statusText(a.Status) + " " + a.QuoteBody()), Advice: advice}
	if class, _ := failure.ClassOf(err); class == failure.Transient || class == failure.Throttled {
		f.Result, f.Advice = finding.Warning, "it may be temporary; check again later"
	}
	return f
}

// Check connects to the target and checks what it can without sending an event: by a token
// request, or by the preset's Checks.
func (s *Sink) Check(ctx context.Context, t sinks.Trial) []finding.Finding {
	found, reached := s.reach(ctx, t.Now)
	if !reached {
		return found
	}
	if s.request.URL.Scheme == "http" {
		found = append(found, finding.Finding{
			Step: "tls", Result: finding.Warning, Detail: "plain http: anyone on the network path can read and change the requests, secrets included",
			Advice: "use https in url",
		})
	}
	if s.tokens != nil {
		rows, issued := s.tokens.check(ctx)
		if found = append(found, rows...); !issued {
			return found
		}
	}
	if len(s.preset.Checks) == 0 {
		detail := "it can be reached, but cannot be checked without sending an event"
		if s.o.Proxy != nil {
			detail = "its proxy can be reached; the target behind it cannot be checked without sending an event"
		}
		return append(found, finding.Finding{
			Step: "delivery", Result: finding.Untried, Detail: detail,
			Advice: "preview the request with ndrbridge try render, and " + TryBySend,
		})
	}
	for _, r := range s.preset.Checks {
		f := s.sendCheck(ctx, r)
		found = append(found, f)
		if f.Result == finding.Failed {
			return found
		}
	}
	if s.preset.Inspect != nil {
		found = append(found, s.preset.Inspect(ctx, &Conversation{sink: s})...)
	}
	return found
}

// reach connects as a request would, to the proxy if there is one, and sends nothing.
func (s *Sink) reach(ctx context.Context, now func() time.Time) (found []finding.Finding, reached bool) {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	target := s.request.URL
	path := &finding.Path{Peer: s.peer()}
	path.Now = now
	address, secure := path.Address, target.Scheme == "https"
	if path.Proxy != "" {
		address, secure = path.Proxy, false
	}
	config := path.Secure(cmp.Or(s.transport.TLSClientConfig, &tls.Config{}))
	err := func() error {
		conn, err := s.transport.DialContext(path.Watch(ctx), "tcp", address)
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
		return tls.Client(conn, config).HandshakeContext(ctx)
	}()
	found, explained := path.Findings(err)
	if err == nil && !secure && path.Proxy == "" && finding.ExpectsTLS(ctx, address) {
		return append(found, finding.PlainToTLS("https")), false
	}
	if err != nil && !explained {
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(context.Cause(ctx), errNoAnswer) {
			err = errors.New("the server did not answer the TLS handshake")
		}
		found = append(found, finding.Finding{
			Step: "tls", Result: finding.Failed, Detail: s.excerpt(err.Error()), Advice: "check that the server speaks TLS on this port, and the scheme and port in url",
		})
	}
	return found, err == nil
}

// sendCheck sends a check request and judges the answer.
func (s *Sink) sendCheck(ctx context.Context, r CheckRequest) finding.Finding {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	header := s.request.Header.Clone()
	if header.Del("Content-Type"); r.Body != nil {
		header.Set("Content-Type", "application/json")
	}
	answer, err := s.exchange(ctx, cmp.Or(r.Method, http.MethodGet), r.URL, header, r.Body)
	if err != nil {
		f := finding.Failure(r.Step, err)
		f.Advice = cmp.Or(f.Advice, "check url, proxy and tls")
		return f
	}
	f := r.Judge(answer)
	f.Step = r.Step
	return f
}
