// Package admin implements the admin interface of a running bridge: health,
// readiness, metrics, the status page, and an API for operators and their tools.
// Client is the API's client.
package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"ndrbridge/internal/admin/page"
)

// Options configures a handler.
type Options struct {
	// Token is the bearer token required for everything but health, readiness and
	// the files of the status page. If it is empty, no token is required.
	Token string
	// ReadToken is a bearer token with which requests may read everything and change
	// nothing. If it is empty, there is none. It requires Token.
	ReadToken string
	// ClientCertificates requires a client certificate for everything that requires a
	// token, in addition to it. The server verifies certificates: see TLS.
	ClientCertificates bool
	// NotReady returns the reasons why the bridge is not ready, a sentence each.
	// It returns none if the bridge is ready.
	NotReady func() []string
	Metrics  prometheus.Gatherer
	// Guesses limits requests with wrong credentials. If it is nil, they are limited but neither
	// counted nor logged.
	Guesses *Guesses
	// Control returns the bridge that the API acts on, a Client of NewLocal, or nil while the
	// state is being opened. It is called for each request. That of a member of a cluster has at
	// least the operations that are not forwarded: Reload, GetCluster and RecoverCluster.
	Control func() *Client
	// Tickets returns the intakes for ticket commands. It is called for each
	// request, once Control returns non-nil.
	Tickets func() Tickets
	// Member is the name of this member of a cluster. Owner returns whether it owns the cluster's log;
	// if it does not, the address of the owner's admin interface, to which requests are forwarded, or
	// the reason why there is none, a sentence. It is called for each request. If it is nil, there is
	// no cluster. TLS has the files with which the interface is served, for requests to the owner.
	Member string
	Owner  func() (url string, self bool, why string)
	TLS    TLS
	// Reload returns the result of the last reload, or nil. It is called for each request.
	// If it is nil, there has been none.
	Reload func() *ReloadStatus
}

// NewHandler returns the admin interface:
//
//	/         the status page; its files are under /page/
//	/healthz  200 while the process runs
//	/readyz   200 when the bridge is ready, else 503 with the reasons
//	/metrics  the metrics in Prometheus' format
//	/api/v1/  the API, which openapi.json describes
//
// Errors are problem documents (RFC 9457): 404 if something does not exist, 409 if the
// current state does not allow the operation, 422 if the configuration or the value of a
// field is invalid; a 422 names the field and the allowed values. A ticket system with a
// secret of its own needs no token. Nor do the files of the status page: they contain no
// data, and the page asks the user for the API's token.
func NewHandler(o Options) http.Handler {
	if o.Guesses == nil {
		o.Guesses = NewGuesses(prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	}
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
	mux.Handle("/metrics", ownPages(o.authorize(readOnly(bounded(maxScrapes, metrics)))))
	for pattern, file := range page.Handlers() {
		mux.Handle(pattern, readOnly(file.ServeHTTP))
	}
	api := o.api()
	mux.Handle("/", ownPages(o.authorize(api)))
	// A web page in a browser on this machine must not be able to use the API.
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(refuseOrigin))
	return guard(protection.Handler(o.bySecret(api, o.byAddress(mux))))
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
// requests whose host is neither an IP address nor localhost. With a token it returns
// next. A request over TLS names a host that the certificate has.
func (o Options) byAddress(next http.Handler) http.Handler {
	if o.Token != "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err != nil && host != "localhost" && r.TLS == nil {
			refusal(http.StatusMisdirectedRequest, "without admin.token, ask for this interface by its address or as localhost").write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// authorize passes on requests with a bearer token, and a client certificate if one is
// required, and refuses others. If there is no token, it requires none. With the token for
// reading, it passes on only what changes nothing.
func (o Options) authorize(next http.Handler) http.Handler {
	all, reading := sha256.Sum256([]byte(o.Token)), sha256.Sum256([]byte(o.ReadToken))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := admissionOf(r)
		if o.ClientCertificates {
			if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
				refusal(http.StatusForbidden, "present a client certificate that an authority of admin.tls.client_ca_file has signed").write(w)
				return
			}
			a.trusted = true
		}
		if o.Token != "" {
			credentials := r.Header.Get("Authorization")
			if credentials != "" {
				if p := o.Guesses.throttled(r, "token"); p != nil {
					p.write(w)
					return
				}
			}
			scheme, got, _ := strings.Cut(credentials, " ")
			sum := sha256.Sum256([]byte(got))
			// Comparing sums of equal length takes the same time for every token.
			isAll := subtle.ConstantTimeCompare(sum[:], all[:]) == 1
			isReading := subtle.ConstantTimeCompare(sum[:], reading[:]) == 1 && o.ReadToken != ""
			switch {
			case !strings.EqualFold(scheme, "Bearer") || !isAll && !isReading:
				if credentials != "" {
					o.Guesses.wrong(r, "token")
				}
				w.Header().Set("WWW-Authenticate", `Bearer realm="ndrbridge"`)
				refusal(http.StatusUnauthorized, "send the token of admin.token or admin.token_file as Authorization: Bearer TOKEN").write(w)
				return
			case !isAll && r.Method != http.MethodGet && r.Method != http.MethodHead:
				refusal(http.StatusForbidden, "the token of admin.read_token can only read: this requires the token of admin.token or admin.token_file").write(w)
				return
			}
			a.trusted, a.readOnly = true, !isAll
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
