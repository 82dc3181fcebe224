package endpoint

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/time/rate"

	"ndrbridge/configs"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/lease"
)

// ClientOptions configure NewClient beyond the appliance's configuration.
type ClientOptions struct {
	Version string
	Observe func(code string) // appliance.Options.Observe; may be nil
	Log     *slog.Logger      // receives anomalies of the appliance's clock; may be nil
	Lease   *lease.Lease      // must be valid when something is sent; nil: it never ends
	// Transport is appliance.Options.Transport; nil: a transport of its own.
	Transport http.RoundTripper
}

// NewClient returns the client of an appliance.
func NewClient(a configs.Appliance, o ClientOptions) (*appliance.Client, error) {
	tlsConfig, err := newTLS(a.TLS)
	if err != nil {
		return nil, err
	}
	proxy, err := ProxyURL(a.Proxy)
	if err != nil {
		return nil, err
	}
	to := appliance.Options{
		URL: a.URL, Product: a.Product, SchemeWord: a.SchemeWord,
		Timeout: time.Duration(a.Timeout), RateLimit: a.RateLimit,
		TLS: tlsConfig, Proxy: proxy,
		UserAgent: "ndrbridge/" + o.Version,
		Observe:   o.Observe,
		Lease:     o.Lease,
		Transport: o.Transport,
	}
	if o.Log != nil {
		logClock(&to, o.Log)
	}
	if a.OAuth.IsSet() {
		to.OAuth = &appliance.OAuth{
			TokenURL: a.OAuth.TokenURL.Value(), ClientID: a.OAuth.ClientID, ClientSecret: a.OAuth.ClientSecret.Read,
		}
	} else {
		to.Key = a.APIKey.Read
	}
	return appliance.New(to)
}

// ProxyURL returns nil if the proxy of the environment is to be used.
func ProxyURL(u configs.URL) (*url.URL, error) {
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
	disbelieved := rate.Sometimes{Interval: 10 * time.Minute}
	o.DateDisbelieved = func(date, expected time.Time) {
		disbelieved.Do(func() {
			log.Warn("the Date header of a response contradicts earlier ones and is ignored: "+
				"check for a proxy with a wrong clock in front of the appliance, and whether its clock was set",
				"date", date.UTC(), "expected", expected)
		})
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

// Filter returns a filter as the appliance's REST interface expects it, or nil if
// it is empty.
func Filter(f any) json.RawMessage {
	b, err := json.Marshal(f)
	if err != nil {
		panic(err) // lists of texts, and operands that are JSON
	}
	if s := string(b); s == "{}" || s == "null" {
		return nil
	}
	return b
}
