package bridge

import (
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"ndrbridge/appliance"
	"ndrbridge/configs"
)

// newClient makes a client that is not traced where tracer is nil.
func newClient(a configs.Appliance, version string, observe func(code string), tracer trace.Tracer, log *slog.Logger) (*appliance.Client, error) {
	tlsConfig, err := clientTLS(a.TLS)
	if err != nil {
		return nil, err
	}
	proxy, err := proxyURL(a.Proxy)
	if err != nil {
		return nil, err
	}
	o := appliance.Options{
		URL: a.URL, Product: a.Product, SchemeWord: a.SchemeWord,
		Timeout: time.Duration(a.Timeout), RateLimit: a.RateLimit,
		TLS: tlsConfig, Proxy: proxy,
		UserAgent: "ndrbridge/" + version,
		Observe:   observe,
		Tracer:    tracer,
	}
	if log != nil {
		logClock(&o, log)
	}
	if a.OAuth.IsSet() {
		o.OAuth = &appliance.OAuth{
			TokenURL: a.OAuth.TokenURL.Value(), ClientID: a.OAuth.ClientID, ClientSecret: a.OAuth.ClientSecret.Read,
		}
	} else {
		o.Key = a.APIKey.Read
	}
	return appliance.New(o)
}

// proxyURL returns nil where the environment's proxy is to be used.
func proxyURL(u configs.URL) (*url.URL, error) {
	if u.Value() == "" {
		return nil, nil
	}
	proxy, err := url.Parse(u.Value())
	if err != nil {
		return nil, fmt.Errorf("proxy: %s is no URL", u) // the error itself would show a password
	}
	return proxy, nil
}

// wrongClock is how far an appliance's clock is off that somebody has to look at.
const wrongClock = 24 * time.Hour

// logClock logs what is noticed about the appliance's clock.
func logClock(o *appliance.Options, log *slog.Logger) {
	const every = 10 * time.Minute
	var mu sync.Mutex
	var last time.Time
	var unlogged int
	o.DateDisbelieved = func(date, expected time.Time) {
		mu.Lock()
		defer mu.Unlock()
		if unlogged++; time.Since(last) < every && !last.IsZero() {
			return
		}
		log.Warn("the Date header of an answer contradicts those before it and is not believed: "+
			"is there a proxy with a wrong clock in front of the appliance, or was its clock set?",
			"date", date.UTC(), "expected", expected, "answers", unlogged)
		last, unlogged = time.Now(), 0
	}
	o.ClockSet = func(ahead time.Duration, first bool) {
		switch {
		case ahead.Abs() > wrongClock:
			log.Warn("the appliance's clock is far from this machine's; times of the configuration, such as start: now, "+
				"count by the appliance's: set the one that is wrong", "ahead", ahead.Round(time.Second))
		case !first:
			log.Info("the appliance's clock was set", "ahead_of_this_machine", ahead.Round(time.Second))
		}
	}
}
