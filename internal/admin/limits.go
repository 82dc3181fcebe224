package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// Limits on callers. They apply to all alike, except that a body sent with the bearer
// token does not count against maxBodies.
const (
	// maxConnections is the maximum number of open connections. A further one closes
	// the oldest that carries no admitted request, so that health checks and operators
	// always get one.
	maxConnections = 200
	// maxHeader is the maximum size of a request's header, in bytes.
	maxHeader = 16 << 10
	// maxBodies is the maximum number of bodies of unauthenticated callers read at
	// once.
	maxBodies = 16
	// maxAnswers is the maximum number of possibly large responses at once.
	maxAnswers = 32
	// maxTails is the maximum number of event streams at once.
	maxTails = 16
	// maxScrapes is the maximum number of responses with metrics at once.
	maxScrapes = 4

	headerTimeout = 10 * time.Second
	// bodyTimeout limits the time to read a body, and bodyStall the time between two parts of
	// an unauthenticated caller's body. Such a body may be cut off earlier: see bodies.
	bodyTimeout = 20 * time.Second
	bodyStall   = 5 * time.Second
	// stallTimeout limits the time in which a client reads a part of a response.
	stallTimeout = 30 * time.Second
	// answerTimeout limits the time of a whole response, except for event streams and
	// backups.
	answerTimeout = 2 * time.Minute
	idleTimeout   = 2 * time.Minute
)

// NewServer returns a server of the handler that NewHandler returns, with limits on
// connections and on each phase of a request.
func NewServer(o Options) *http.Server {
	open := new(connections)
	// The limits are made for connections that carry one request at a time.
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Protocols:         protocols,
		Handler:           NewHandler(o),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ConnContext:       open.add,
		ConnState: func(c net.Conn, state http.ConnState) {
			if state == http.StateClosed || state == http.StateHijacked {
				open.remove(c)
			}
		},
	}
}

// connections are the open connections, oldest first. It is safe for concurrent use.
type connections struct {
	mu   sync.Mutex
	open []*connection
}

// connection is an open connection. It is safe for concurrent use.
type connection struct {
	net.Conn
	admitted atomic.Bool // it carries an admitted request
}

// abort closes the connection without a farewell, which a peer that does not read would
// delay.
func (c *connection) abort() error {
	if secure, ok := c.Conn.(*tls.Conn); ok {
		return secure.NetConn().Close()
	}
	return c.Close()
}

type connectionKey struct{}

// add registers c and returns ctx with it, for http.Server.ConnContext. If there are
// too many connections, it closes the oldest that carries no admitted request.
func (cs *connections) add(ctx context.Context, c net.Conn) context.Context {
	added := &connection{Conn: c}
	cs.mu.Lock()
	var surplus *connection
	cs.open = append(cs.open, added)
	if len(cs.open) > maxConnections {
		// It may be the added one itself.
		i := slices.IndexFunc(cs.open, func(c *connection) bool { return !c.admitted.Load() })
		surplus = cs.open[i]
		cs.open = slices.Delete(cs.open, i, i+1)
	}
	cs.mu.Unlock()
	if surplus != nil {
		_ = surplus.abort()
	}
	return context.WithValue(ctx, connectionKey{}, added)
}

func (cs *connections) remove(c net.Conn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.open = slices.DeleteFunc(cs.open, func(open *connection) bool { return open.Conn == c })
}

// admission is the state of one request's admission. Only the request's handler may
// use it.
type admission struct {
	connection *connection // nil: the server is not NewServer's
	trusted    bool        // the request has a bearer token or a client certificate
	readOnly   bool        // the token is that for reading
	stream     bool        // answerTimeout does not apply
}

type admissionKey struct{}

// admissionOf returns the admission of a request that guard passed on.
func admissionOf(r *http.Request) *admission {
	if a, ok := r.Context().Value(admissionKey{}).(*admission); ok {
		return a
	}
	return new(admission)
}

// admit keeps the connection open until the request's handler returns.
func (a *admission) admit() {
	if a.connection != nil {
		a.connection.admitted.Store(true)
	}
}

// guard limits each phase of a request: the time in which its body arrives and the
// number of bodies read at once, and the time of its response. It closes the connection
// after a request whose body was not read.
func guard(next http.Handler) http.Handler {
	bodies := new(bodies)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", serverName)
		a := new(admission)
		if a.connection, _ = r.Context().Value(connectionKey{}).(*connection); a.connection != nil {
			defer a.connection.admitted.Store(false)
		}
		controller := http.NewResponseController(w)
		// The server flushes its buffer after the handler has returned.
		defer func() { _ = controller.SetWriteDeadline(time.Now().Add(stallTimeout)) }()
		r = r.WithContext(context.WithValue(r.Context(), admissionKey{}, a))
		if r.ContentLength != 0 {
			w.Header().Set("Connection", "close")
			end := time.Now().Add(bodyTimeout)
			_ = controller.SetReadDeadline(end)
			body := &boundedBody{ReadCloser: r.Body, admission: a, bodies: bodies, controller: controller, end: end, arrived: func() {
				w.Header().Del("Connection")
				// The deadline must not end the request while it is carried out.
				_ = controller.SetReadDeadline(time.Time{})
				a.admit()
			}}
			body.address, _, _ = net.SplitHostPort(r.RemoteAddr) // empty: unknown
			defer bodies.remove(body)
			r.Body = body
		}
		next.ServeHTTP(&timedWriter{ResponseWriter: w, controller: controller, admission: a}, r)
	})
}

// errBodies is returned by boundedBody if maxBodies are being read and this one is refused or cut
// off for another.
var errBodies = errors.New("too many bodies of unauthenticated callers are being read; try again")

// bodies has the bodies of unauthenticated callers whose requests are being read or handled. If
// another one begins when there are maxBodies, a body of the address with the most of them is cut
// off, the one that has been idle longest. So idle callers cannot lock out others.
type bodies struct {
	mu   sync.Mutex
	open []*boundedBody // the longest idle first
}

// progress is called before each read of b. It reports false if b must not be read any more.
func (bs *bodies) progress(b *boundedBody) bool {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if i := slices.Index(bs.open, b); i >= 0 {
		bs.open = slices.Delete(bs.open, i, i+1)
	} else if b.cut || len(bs.open) == maxBodies && !bs.cutOne(b.address) {
		return false
	}
	bs.open = append(bs.open, b)
	deadline := time.Now().Add(bodyStall)
	if b.end.Before(deadline) {
		deadline = b.end
	}
	_ = b.controller.SetReadDeadline(deadline)
	return true
}

// cutOne cuts off a body to admit one from address. It reports false if all have arrived. bs.mu
// must be held.
func (bs *bodies) cutOne(address string) bool {
	count := map[string]int{address: 1}
	for _, b := range bs.open {
		count[b.address]++
	}
	victim := -1
	for i, b := range bs.open {
		if !b.whole && (victim < 0 || count[b.address] > count[bs.open[victim].address]) {
			victim = i
		}
	}
	if victim < 0 {
		return false
	}
	b := bs.open[victim]
	b.cut = true
	_ = b.controller.SetReadDeadline(time.Unix(1, 0))
	bs.open = slices.Delete(bs.open, victim, victim+1)
	return true
}

// arrived records that b has arrived completely, so that it is no longer cut off.
func (bs *bodies) arrived(b *boundedBody) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	b.whole = true
}

func (bs *bodies) remove(b *boundedBody) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	bs.open = slices.DeleteFunc(bs.open, func(open *boundedBody) bool { return open == b })
}

func (bs *bodies) wasCut(b *boundedBody) bool {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	return b.cut
}

// boundedBody is a request body. It belongs to bodies until the request has been handled, unless
// the request is trusted.
type boundedBody struct {
	io.ReadCloser
	admission  *admission
	bodies     *bodies
	controller *http.ResponseController
	address    string    // of the caller
	end        time.Time // by when it must have arrived
	arrived    func()    // is called at the end of the body

	cut, whole bool // it was cut off; it has arrived. Guarded by bodies.mu.
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if !b.admission.trusted && !b.bodies.progress(b) {
		return 0, errBodies
	}
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == io.EOF:
		b.bodies.arrived(b)
		b.arrived()
	case err != nil && b.bodies.wasCut(b):
		err = errBodies
	}
	return n, err
}

// timedWriter is a ResponseWriter that sets a deadline for each write.
type timedWriter struct {
	http.ResponseWriter
	controller *http.ResponseController
	admission  *admission
	end        time.Time // the deadline of the whole response
}

func (w *timedWriter) Write(b []byte) (int, error) {
	now := time.Now()
	until := now.Add(stallTimeout)
	if w.end.IsZero() {
		w.end = now.Add(answerTimeout)
	}
	if !w.admission.stream && w.end.Before(until) {
		until = w.end
	}
	_ = w.controller.SetWriteDeadline(until)
	return w.ResponseWriter.Write(b)
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// bounded passes at most limit requests at once to next, and answers others with 503.
func bounded(limit int64, next http.Handler) http.HandlerFunc {
	s := semaphore.NewWeighted(limit)
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.TryAcquire(1) {
			busy("too many requests of this kind are being answered; try again").write(w)
			return
		}
		defer s.Release(1)
		next.ServeHTTP(w, r)
	}
}

// ownPages refuses requests that a browser sends for a page of another site. It
// protects responses that contain data or are expensive to make.
func ownPages(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Sec-Fetch-Site") {
		case "cross-site", "same-site":
			refuseOrigin(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func refuseOrigin(w http.ResponseWriter, _ *http.Request) {
	refusal(http.StatusForbidden, "requests of pages of another site are refused").write(w)
}
