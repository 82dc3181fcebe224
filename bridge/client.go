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

// newClient returns the client of an appliance. It is not traced if tracer is nil.
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

// proxyURL returns nil if the proxy of the environment is to be used.
func proxyURL(u configs.URL) (*url.URL, error) {
	if u.Value() == "" {
		return nil, nil
	}
	proxy, err := url.Parse(u.Value())
	if err != nil {
		return nil, fmt.Errorf("proxy: %s is not a URL", u) // url.Parse's error would show a password
	}
	return proxy, nil
}

// wrongClock is the clock skew above which an operator must act.
const wrongClock = 24 * time.Hour

// logClock sets callbacks in o that log anomalies of the appliance's clock.
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
		log.Warn("the Date header of a response contradicts earlier ones and is ignored: "+
			"check for a proxy with a wrong clock in front of the appliance, and whether its clock was set",
			"date", date.UTC(), "expected", expected, "answers", unlogged)
		last, unlogged = time.Now(), 0
	}
	o.ClockSet = func(ahead time.Duration, first bool) {
		switch {
		case ahead.Abs() > wrongClock:
			log.Warn("the appliance's clock differs widely from this machine's; times in the configuration, such as start: now, "+
				"follow the appliance's clock: correct the wrong one", "ahead", ahead.Round(time.Second))
		case !first:
			log.Info("the appliance's clock was set", "ahead_of_this_machine", ahead.Round(time.Second))
		}
	}
}
