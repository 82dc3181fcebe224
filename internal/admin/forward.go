package admin

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"mime"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"golang.org/x/sync/semaphore"
)

// forwardedBy is the header that a member adds to a request that it forwards. Its value is the
// name of the member.
const forwardedBy = "Ndr-Forwarded-By"

// Limits on requests that are forwarded.
const (
	// maxForwarded is the maximum number of them at once: as many as the owner answers.
	maxForwarded = maxAnswers + maxTails
	// connectTimeout limits the time to connect to the owner.
	connectTimeout = 5 * time.Second
	// readTimeout and changeTimeout limit the time until the owner begins to answer a GET, and
	// another request: a handover, for example, takes as long as its sinks need to stop. That of
	// a backup is maxBackup.
	readTimeout   = 30 * time.Second
	changeTimeout = 2 * time.Minute
	// gapTimeout limits the time between two parts of its answer. Streams of events have a comment
	// every 15 s.
	gapTimeout = 2 * time.Minute
	// maxAnswerHeader is the maximum size of the header of its answer, in bytes.
	maxAnswerHeader = 64 << 10
)

// forwarder passes requests on to the owner of the cluster's log, at a member that does not own
// it: only the owner has the pipeline. The member has authorized the caller, and the owner does so
// again: a request is passed on as it is, with the caller's credentials, and so is the answer. A
// request that another member has forwarded is refused, so that none goes round in circles. What
// does not arrive, or comes back from something else than a bridge, is answered by a problem with
// the status 503.
type forwarder struct {
	options   Options
	running   *semaphore.Weighted
	transport *http.Transport

	read, change, gap time.Duration // readTimeout, changeTimeout and gapTimeout
}

// newForwarder returns the forwarder of a member, or nil for a single bridge.
func (o Options) newForwarder() *forwarder {
	if o.Owner == nil {
		return nil
	}
	dialer := &net.Dialer{Timeout: connectTimeout}
	return &forwarder{
		options: o, running: semaphore.NewWeighted(maxForwarded), read: readTimeout, change: changeTimeout, gap: gapTimeout,
		transport: &http.Transport{
			DialContext:            dialer.DialContext,
			DialTLSContext:         o.TLS.dialMember(dialer),
			DisableKeepAlives:      true, // a connection that is kept may lead to a machine that is gone
			DisableCompression:     true, // the answer is passed on as it is
			MaxResponseHeaderBytes: maxAnswerHeader,
		},
	}
}

// forward passes a request for an operation on to the owner. It reports false if this member has
// to carry the operation out itself.
func (f *forwarder) forward(w http.ResponseWriter, r *http.Request, do served) bool {
	if f == nil || do.local {
		return false
	}
	address, self, why := f.options.Owner()
	if self {
		return false
	}
	if err := f.pass(w, r, do, address, why); err != nil {
		problemOf(err, http.StatusInternalServerError).write(w)
	}
	return true
}

// pass passes a request on to the owner at an address. An error is returned only if nothing was
// sent to the caller.
func (f *forwarder) pass(w http.ResponseWriter, r *http.Request, do served, address, why string) error {
	if by := r.Header.Get(forwardedBy); by != "" {
		return ownerProblem(fmt.Sprintf("member %.80q forwarded this request to a member that does not own the log: the owner has changed, or admin.advertise of the owner leads to this member", by))
	}
	if address == "" {
		return ownerProblem(why)
	}
	target := ownerURL(address)
	if target == nil {
		return ownerProblem(fmt.Sprintf("the owner of the log has the address %.200q, which is no URL with http or https and a host: set its admin.advertise", address))
	}
	if do.route == API.Backup.route && !r.ProtoAtLeast(1, 1) {
		return errOldHTTP
	}
	var body []byte
	var err error
	switch {
	case do.verify != nil:
		body, err = do.verify(w, r)
	case r.ContentLength != 0:
		body, err = readAll(w, r, maxRequest)
	}
	if err != nil {
		return err
	}
	if !f.running.TryAcquire(1) {
		return busy("too many requests are being forwarded to the owner of the log; try again")
	}
	defer f.running.Release(1)
	limit := f.change
	switch {
	case r.Method == http.MethodGet:
		limit = f.read
	case do.route == API.Backup.route: // the owner makes the copy before it answers
		limit = maxBackup
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	timer := time.AfterFunc(limit, func() {
		cancel(errors.New("it did not answer in time; what was asked for may be done nevertheless"))
	})
	defer timer.Stop()
	out := r.WithContext(ctx)
	out.Body, out.ContentLength, out.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	proxy := httputil.ReverseProxy{
		Transport: f.transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(target)
			f.prepare(p.Out.Header)
		},
		ModifyResponse: func(answer *http.Response) error {
			admissionOf(r).stream = isStream(answer.Header)
			answer.Body = &timedBody{answer.Body, timer, f.gap}
			return checkAnswer(answer)
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			ownerProblem(fmt.Sprintf("the owner of the log at %s cannot be asked: %v", target.Host, explain(err))).write(w)
		},
	}
	proxy.ServeHTTP(w, out)
	return nil
}

// ownerURL returns the URL that an owner wrote to the log; nil: a bridge writes no such URL.
func ownerURL(address string) *url.URL {
	target, err := url.Parse(address)
	if err != nil || target.Hostname() == "" {
		return nil
	}
	if target.Scheme != "http" && target.Scheme != "https" {
		return nil
	}
	return target
}

// prepare changes the header of a request that is passed on. Where it comes from was checked here:
// the owner would compare its own address with the origin.
func (f *forwarder) prepare(h http.Header) {
	for _, name := range []string{"Origin", "Sec-Fetch-Site", "Expect", "Connection", "Upgrade"} {
		h.Del(name)
	}
	h.Set(forwardedBy, f.options.Member)
}

// checkAnswer returns an error if an answer is not that of a bridge.
func checkAnswer(answer *http.Response) error {
	if answer.Header.Get("Server") != serverName || answer.StatusCode < 200 || answer.StatusCode/100 == 3 {
		return fmt.Errorf("what answers there (%s) is no bridge; check admin.advertise of the owner", answer.Status)
	}
	answer.Header.Del("Server") // this member has set it already
	return nil
}

// isStream reports whether answerTimeout does not apply to an answer.
func isStream(h http.Header) bool {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && media != "application/json" && media != "application/problem+json"
}

// explain adds to an error what to do about it, if that is known.
func explain(err error) error {
	if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); untrusted {
		return fmt.Errorf("%w; an authority of this system must have signed its certificate for that name, or admin.tls.cert_file of this member must have it", err)
	}
	return err
}

// ownerProblem returns the problem of a request that must reach the owner and cannot now.
func ownerProblem(detail string) *problem {
	p := newProblem(http.StatusServiceUnavailable, detail)
	p.retryAfter = "1"
	return p
}

// timedBody is the body of an owner's answer. The timer ends the request unless a part of it
// arrives at least every gap.
type timedBody struct {
	io.ReadCloser
	timer *time.Timer
	gap   time.Duration
}

func (b *timedBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.gap)
	return b.ReadCloser.Read(p)
}
