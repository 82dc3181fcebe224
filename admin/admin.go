// Package admin serves what operators and their tools ask of a running bridge:
// health, readiness, metrics, and an API that acts on it. Client is the other
// end of that API.
package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"ndrbridge/admin/page"
)

// Options say what a handler serves.
type Options struct {
	// Token is the bearer token that everything but health and readiness wants;
	// empty: none.
	Token string
	// NotReady returns why the bridge is not ready, a sentence each; empty when
	// it is.
	NotReady func() []string
	Metrics  prometheus.Gatherer
	// Control is what the API acts on. It is asked for with each request: nil
	// while the state is being opened.
	Control func() Control
	// Tickets takes ticket commands in. It is asked for with each request, once
	// there is a Control.
	Tickets func() Tickets
}

// NewHandler returns the admin interface:
//
//	/         the status page, whose files lie under /page/
//	/healthz  200 while the process lives
//	/readyz   200 when it is ready, else 503 with the reasons
//	/metrics  Prometheus' metrics
//	/api/v1/  what Control does:
//
//	GET    status                               Status
//	GET    history                              History, the last hour
//	GET    events?since=TIME                    the events from then on, as server-sent events;
//	                                            without since, the last=N of the journal first
//	GET    sinks/NAME/dead?after=KEY&limit=N    a page of dead letters, with bodies=true their bodies too
//	GET    sinks/NAME/dead/KEY                  one dead letter
//	DELETE sinks/NAME/dead                      forgets dead letters: {"keys": [KEY]} or {"all": true}
//	POST   sinks/NAME/requeue                   delivers them again: {"keys": [KEY]} or {"all": true}
//	POST   sinks/NAME/replay                    delivers the journal again: {"since": TIME}
//	POST   sinks/NAME/pause, sinks/NAME/resume
//	…      appliances/NAME/dead?stream=STREAM   as sinks/NAME/dead
//	POST   backup                               a copy of the state; one at a time
//	POST   reload                               loads the configuration again
//	POST   rewind                               {"appliance": NAME, "stream": STREAM, "to": TIME}
//	POST   verify                               {"appliance": NAME, "since": TIME}; lines of JSON
//	POST   tickets                              takes a ticket command, or a list of them
//	GET    tickets?status=STATUS&appliance=NAME&ticket=TICKET&after=ID&limit=N
//	GET    tickets/ID                           one ticket command
//	POST   tickets/ID/retry                     carries out a rejected one once more
//	DELETE tickets/ID                           forgets it
//	POST   tickets/WEBHOOK                      takes what a ticket system sends
//
// TIME is RFC 3339. Its own errors are problem documents (RFC 9457): 404 for
// what is not there, 409 for what cannot be done as things are, 422 for a
// configuration or the value of a field that is wrong; that one names the field, and
// the values allowed. A ticket system that shows its own secret needs no token.
// Neither do the files of the status page: they hold no data, and the page asks for
// the token that the API wants.
func NewHandler(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/healthz", readOnly(func(w http.ResponseWriter, _ *http.Request) { writeText(w, "ok\n") }))
	mux.Handle("/readyz", readOnly(func(w http.ResponseWriter, _ *http.Request) {
		if reasons := o.NotReady(); len(reasons) > 0 {
			writeProblem(w, http.StatusServiceUnavailable, "not ready: "+strings.Join(reasons, "; "))
			return
		}
		writeText(w, "ready\n")
	}))
	metrics := promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{})
	mux.Handle("/metrics", ownPages(authorize(o.Token, readOnly(bounded(maxScrapes, metrics.ServeHTTP)))))
	for pattern, file := range page.Handlers() {
		mux.Handle(pattern, readOnly(file.ServeHTTP))
	}
	api := o.api()
	mux.Handle("/", ownPages(authorize(o.Token, api)))
	// A page in a browser on this machine must not be able to act here.
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(refuseOrigin))
	return guard(protection.Handler(o.bySecret(api, byAddress(o.Token, mux))))
}

// readOnly lets requests that read through to next.
func readOnly(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			refuseMethod(w, r, []string{http.MethodGet, http.MethodHead})
			return
		}
		next(w, r)
	})
}

// byAddress refuses, where no token protects the interface, requests to a name
// that is not this machine's own: a page can give its own name our address.
func byAddress(token string, next http.Handler) http.Handler {
	if token != "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err != nil && host != "localhost" {
			w.Header().Set("Connection", "close")
			writeProblem(w, http.StatusMisdirectedRequest, "without admin.token, ask for this interface by its address or as localhost")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// authorize lets requests with the bearer token through to next.
func authorize(token string, next http.Handler) http.Handler {
	if token == "" {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength == 0 { // else once its body has arrived
				visitOf(r).letIn()
			}
			next.ServeHTTP(w, r)
		})
	}
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, got, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		sum := sha256.Sum256([]byte(got))
		// Sums of one length compare in a time that tells nothing of the token.
		if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(sum[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="ndrbridge"`)
			w.Header().Set("Connection", "close")
			writeProblem(w, http.StatusUnauthorized, "send the token of admin.token or admin.token_file as Authorization: Bearer TOKEN")
			return
		}
		v := visitOf(r)
		v.trusted = true
		v.letIn()
		next.ServeHTTP(w, r)
	})
}

func writeText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(text)) // a client that went away misses it
}
