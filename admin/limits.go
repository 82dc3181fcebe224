package admin

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// What callers may use. None of it depends on who they are, but for bodies: one that
// comes with the bearer token waits for nobody.
const (
	// maxConnections are open at once. The next one closes the oldest that carries no
	// request that was let in, so that there is always one for health and an operator.
	maxConnections = 200
	// maxHeader bounds the header of a request, in bytes.
	maxHeader = 16 << 10
	// maxBodies are read at once of callers who have not shown who they are.
	maxBodies = 16
	// maxAnswers are made and sent at once, of those that may be large.
	maxAnswers = 32
	// maxTails are streams of events at once.
	maxTails = 16
	// maxScrapes are answers with metrics at once.
	maxScrapes = 4

	headerTimeout = 10 * time.Second
	// bodyTimeout is how long a body may take to arrive.
	bodyTimeout = 20 * time.Second
	// stallTimeout is how long a piece of an answer may take to be read.
	stallTimeout = 30 * time.Second
	// answerTimeout is how long a whole answer may take, but for a stream's and a
	// backup's.
	answerTimeout = 2 * time.Minute
	idleTimeout   = 2 * time.Minute
)

// NewServer returns a server of the admin interface as NewHandler describes it, with
// limits on connections and on each phase of a request.
func NewServer(o Options) *http.Server {
	open := new(connections)
	return &http.Server{
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

// connections are those that are open, the oldest first.
type connections struct {
	mu   sync.Mutex
	open []*connection
}

// connection is one that is open. It is safe for concurrent use.
type connection struct {
	net.Conn
	working atomic.Bool // it carries a request that was let in
}

type connectionKey struct{}

// add implements http.Server's ConnContext.
func (cs *connections) add(ctx context.Context, c net.Conn) context.Context {
	added := &connection{Conn: c}
	cs.mu.Lock()
	var surplus *connection
	cs.open = append(cs.open, added)
	if len(cs.open) > maxConnections {
		// It may be the one that was added.
		i := slices.IndexFunc(cs.open, func(c *connection) bool { return !c.working.Load() })
		surplus = cs.open[i]
		cs.open = slices.Delete(cs.open, i, i+1)
	}
	cs.mu.Unlock()
	if surplus != nil {
		_ = surplus.Close()
	}
	return context.WithValue(ctx, connectionKey{}, added)
}

func (cs *connections) remove(c net.Conn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.open = slices.DeleteFunc(cs.open, func(open *connection) bool { return open.Conn == c })
}

// visit is one request and what is known of it. It belongs to its handler.
type visit struct {
	connection *connection // nil: the server is not NewServer's
	trusted    bool        // it came with the bearer token
	stream     bool        // the answer may go on for as long as it is read
}

type visitKey struct{}

// visitOf returns the visit of a request that guard let through.
func visitOf(r *http.Request) *visit {
	if v, ok := r.Context().Value(visitKey{}).(*visit); ok {
		return v
	}
	return new(visit)
}

// letIn keeps the connection open while the request is carried out.
func (v *visit) letIn() {
	if v.connection != nil {
		v.connection.working.Store(true)
	}
}

// guard bounds the phases of each request: how long its body takes and how many are
// read, and how long its answer takes. A connection is closed behind a request whose
// body was not read.
func guard(next http.Handler) http.Handler {
	bodies := make(chan struct{}, maxBodies)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", serverName)
		v := new(visit)
		if v.connection, _ = r.Context().Value(connectionKey{}).(*connection); v.connection != nil {
			defer v.connection.working.Store(false)
		}
		controller := http.NewResponseController(w)
		// What is left in a buffer is sent once the handler has returned.
		defer func() { _ = controller.SetWriteDeadline(time.Now().Add(stallTimeout)) }()
		r = r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
		if r.ContentLength != 0 {
			w.Header().Set("Connection", "close")
			_ = controller.SetReadDeadline(time.Now().Add(bodyTimeout))
			body := &boundedBody{ReadCloser: r.Body, visit: v, slots: bodies, arrived: func() {
				w.Header().Del("Connection")
				// It must not end the request while that is carried out.
				_ = controller.SetReadDeadline(time.Time{})
				v.letIn()
			}}
			defer body.release()
			r.Body = body
		}
		next.ServeHTTP(&timedWriter{ResponseWriter: w, controller: controller, visit: v}, r)
	})
}

// errBodies says that too many bodies are being read.
var errBodies = errors.New("too many bodies are being read of callers who have not shown who they are; try again")

// boundedBody is a body that takes a slot while it arrives, unless it is trusted.
type boundedBody struct {
	io.ReadCloser
	visit   *visit
	slots   chan struct{}
	held    bool
	arrived func() // is called at its end
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if !b.held && !b.visit.trusted {
		select {
		case b.slots <- struct{}{}:
			b.held = true
		default:
			return 0, errBodies
		}
	}
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.arrived()
	}
	return n, err
}

func (b *boundedBody) release() {
	if b.held {
		b.held = false
		<-b.slots
	}
}

// timedWriter gives a client a time to read what is written.
type timedWriter struct {
	http.ResponseWriter
	controller *http.ResponseController
	visit      *visit
	end        time.Time // of the whole answer
}

func (w *timedWriter) Write(b []byte) (int, error) {
	now := time.Now()
	until := now.Add(stallTimeout)
	if w.end.IsZero() {
		w.end = now.Add(answerTimeout)
	}
	if !w.visit.stream && w.end.Before(until) {
		until = w.end
	}
	_ = w.controller.SetWriteDeadline(until)
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// bounded lets so many requests at once through to next.
func bounded(most int, next http.HandlerFunc) http.HandlerFunc {
	slots := make(chan struct{}, most)
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			next(w, r)
		default:
			writeBusy(w, "too many requests of this kind are being answered; try again")
		}
	}
}

// writeBusy answers that the same request may pass later.
func writeBusy(w http.ResponseWriter, detail string) {
	w.Header().Set("Retry-After", "5")
	w.Header().Set("Connection", "close")
	writeProblem(w, http.StatusServiceUnavailable, detail)
}

// ownPages refuses what a page of another site has a browser ask for. It guards what
// is worth something to the caller or costs the bridge something.
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
	w.Header().Set("Connection", "close")
	writeProblem(w, http.StatusForbidden, "a page of another site cannot act here")
}
