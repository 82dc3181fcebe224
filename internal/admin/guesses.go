package admin

import (
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
)

// Limits on guesses of a token or of a webhook's secret, for each address of callers.
const (
	// maxGuesses is the burst of wrong credentials that are examined, and guessEvery the
	// interval between those after the burst.
	maxGuesses = 100
	guessEvery = time.Second
	// maxGuessers limits the number of remembered addresses. Further ones share a limit.
	maxGuessers = 1024
	// guessesLogged is the minimum interval between two log lines about guesses.
	guessesLogged = time.Minute
)

// Guesses limits, counts and logs requests with wrong credentials. Requests from an address that
// sent too many are refused before their credentials are examined, so that fast guessing reveals
// nothing. Other addresses are not affected. Guesses is safe for concurrent use.
type Guesses struct {
	log     *slog.Logger
	refused *prometheus.CounterVec

	mu       sync.Mutex
	guessers map[guesser]*rate.Limiter
	logged   time.Time
	unlogged int // refused requests since then
}

// guesser is the key of a limiter.
type guesser struct {
	address netip.Prefix
	secret  string // "token", or the name of a webhook
}

// NewGuesses returns Guesses and registers their metric.
func NewGuesses(r prometheus.Registerer, log *slog.Logger) *Guesses {
	g := &Guesses{log: log, guessers: make(map[guesser]*rate.Limiter), refused: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ndrbridge_admin_refused_credentials_total",
		Help: "Requests to the admin interface with wrong credentials, by result: wrong, or throttled (not examined, because the address had sent too many).",
	}, []string{"result"})}
	r.MustRegister(g.refused)
	for _, result := range []string{"wrong", "throttled"} { // so that rate() sees the first one
		g.refused.WithLabelValues(result)
	}
	return g
}

// throttled returns a problem if the credentials of r must not be examined.
func (g *Guesses) throttled(r *http.Request, secret string) *problem {
	g.mu.Lock()
	limiter := g.guessers[g.guesser(r, secret)]
	throttled := limiter != nil && limiter.Tokens() < 1
	g.mu.Unlock()
	if !throttled {
		return nil
	}
	g.count(r, secret, "throttled")
	p := refusal(http.StatusTooManyRequests, "too many requests with wrong credentials came from this address; try again")
	p.retryAfter = "1"
	return p
}

// wrong records that the credentials of r were wrong.
func (g *Guesses) wrong(r *http.Request, secret string) {
	g.mu.Lock()
	key := g.guesser(r, secret)
	limiter := g.guessers[key]
	if limiter == nil {
		limiter = rate.NewLimiter(rate.Every(guessEvery), maxGuesses)
		g.guessers[key] = limiter
	}
	limiter.Allow()
	g.mu.Unlock()
	g.count(r, secret, "wrong")
}

// guesser returns the key of the sender of r. g.mu must be held.
func (g *Guesses) guesser(r *http.Request, secret string) guesser {
	var key guesser
	if from, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		address, bits := from.Addr().Unmap(), 32
		if address.Is6() {
			bits = 64 // a host can use all addresses of its network
		}
		prefix, _ := address.WithZone("").Prefix(bits) // it fails only for invalid bits
		key = guesser{prefix, secret}
	}
	if g.guessers[key] != nil || len(g.guessers) < maxGuessers {
		return key
	}
	for known, limiter := range g.guessers {
		if limiter.Tokens() >= maxGuesses {
			delete(g.guessers, known)
		}
	}
	if len(g.guessers) < maxGuessers {
		return key
	}
	return guesser{}
}

// count counts a refused request, and logs the number of them at most once in guessesLogged.
func (g *Guesses) count(r *http.Request, secret, result string) {
	g.refused.WithLabelValues(result).Inc()
	g.mu.Lock()
	g.unlogged++
	n, now := g.unlogged, time.Now()
	due := now.Sub(g.logged) >= guessesLogged
	if due {
		g.logged, g.unlogged = now, 0
	}
	g.mu.Unlock()
	if due {
		g.log.Warn("requests with wrong credentials were refused", "secret", secret, "address", r.RemoteAddr, "requests", n)
	}
}
