// Package admin implements the admin interface of a running bridge: health,
// readiness, metrics, the status page, and an API for operators and their tools.
// Client is the API's client.
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

// Options configures a handler.
type Options struct {
	// Token is the bearer token required for everything but health, readiness and
	// the files of the status page. If it is empty, no token is required.
	Token string
	// NotReady returns the reasons why the bridge is not ready, a sentence each.
	// It returns none if the bridge is ready.
	NotReady func() []string
	Metrics  prometheus.Gatherer
	// Control returns the Control that the API acts on, or nil while the state is
	// being opened. It is called for each request.
	Control func() Control
	// Tickets returns the intakes for ticket commands. It is called for each
	// request, once Control returns non-nil.
	Tickets func() Tickets
	// Cluster returns the cluster that the bridge is a member of, or nil. It is called
	// for each request. If it is nil, there is none.
	Cluster func() ClusterControl
}

// NewHandler returns the admin interface:
//
//	/         the status page; its files are under /page/
//	/healthz  200 while the process runs
//	/readyz   200 when the bridge is ready, else 503 with the reasons
//	/metrics  the metrics in Prometheus' format
//	/api/v1/  the API:
//
//	GET    status                               Status
//	GET    cluster                              Cluster
//	POST   cluster/handover                     hands shards over: {"member": NAME} or {"shard": NUMBER}
//	POST   cluster/recover                      continues a shard's log from a member's copy: {"shard": NUMBER, "from": NAME}
//	GET    history                              History, the last hour
//	GET    events?since=TIME                    events recorded since TIME, then new ones, as
//	                                            server-sent events; without since, the last=N
//	                                            of the journal first
//	GET    sinks/NAME/dead?after=KEY&limit=N    a page of dead letters; bodies=true includes their bodies
//	GET    sinks/NAME/dead/KEY                  one dead letter
//	DELETE sinks/NAME/dead                      deletes dead letters: {"keys": [KEY]} or {"all": true}
//	POST   sinks/NAME/requeue                   redelivers dead letters: {"keys": [KEY]} or {"all": true}
//	POST   sinks/NAME/replay                    redelivers events of the journal: {"since": TIME}
//	POST   sinks/NAME/pause, sinks/NAME/resume
//	POST   sinks/NAME/forget                    deletes the state of a sink that is not configured
//	POST   sinks/NAME/rename                    moves it to another name: {"to": NAME}
//	POST   appliances/NAME/forget               deletes the state of an appliance that is not
//	                                            configured, or only its identity: {"identity": true}
//	…      appliances/NAME/dead?stream=STREAM   as sinks/NAME/dead
//	POST   backup                               a copy of the state; one at a time
//	POST   reload                               reloads the configuration
//	POST   rewind                               {"appliance": NAME, "stream": STREAM, "to": TIME}
//	POST   verify                               {"appliance": NAME, "since": TIME}; lines of JSON
//	POST   tickets                              accepts a ticket command, or a list of them
//	GET    tickets?status=STATUS&appliance=NAME&ticket=TICKET&after=ID&limit=N
//	GET    tickets/ID                           one ticket command
//	POST   tickets/ID/retry                     retries a rejected one
//	DELETE tickets/ID                           deletes it
//	POST   tickets/WEBHOOK                      accepts a ticket system's webhook
//
// TIME is RFC 3339. The cluster is not found if the bridge has none. Errors are problem documents (RFC 9457): 404 if something does
// not exist, 409 if the current state does not allow the operation, 422 if the
// configuration or the value of a field is invalid; a 422 names the field and the
// allowed values. A ticket system with a secret of its own needs no token. Nor do
// the files of the status page: they contain no data, and the page asks the user
// for the API's token.
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
	mux.Handle("/metrics", ownPages(authorize(o.Token, readOnly(bounded(maxScrapes, metrics)))))
	for pattern, file := range page.Handlers() {
		mux.Handle(pattern, readOnly(file.ServeHTTP))
	}
	api := o.api()
	mux.Handle("/", ownPages(authorize(o.Token, api)))
	// A web page in a browser on this machine must not be able to use the API.
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(refuseOrigin))
	return guard(protection.Handler(o.bySecret(api, byAddress(o.Token, mux))))
}

// readOnly passes GET and HEAD requests to next and refuses others.
func readOnly(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			refuseMethod(w, r, []string{http.MethodGet, http.MethodHead})
			return
		}
		next(w, r)
	})
}

// byAddress protects an interface without a token from DNS rebinding: it refuses
// requests whose host is neither an IP address nor localhost. With a token it
// returns next.
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
			refusal(http.StatusMisdirectedRequest, "without admin.token, ask for this interface by its address or as localhost").write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// authorize passes requests with the bearer token to next and refuses others. If
// token is empty, it passes all.
func authorize(token string, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := admissionOf(r)
		if token != "" {
			scheme, got, _ := strings.Cut(r.Header.Get("Authorization"), " ")
			sum := sha256.Sum256([]byte(got))
			// Comparing sums of equal length takes the same time for every token.
			if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(sum[:], want[:]) != 1 {
				w.Header().Set("WWW-Authenticate", `Bearer realm="ndrbridge"`)
				refusal(http.StatusUnauthorized, "send the token of admin.token or admin.token_file as Authorization: Bearer TOKEN").write(w)
				return
			}
			a.trusted = true
		}
		if a.trusted || r.ContentLength == 0 { // otherwise when its body has arrived
			a.admit()
		}
		next.ServeHTTP(w, r)
	})
}

func writeText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(text)) // fails only if the client is gone
}
