package bridge

import (
	"fmt"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/trace"

	"ndrbridge/appliance"
	"ndrbridge/configs"
)

// newClient makes a client that is not traced where tracer is nil.
func newClient(a configs.Appliance, version string, observe func(code string), tracer trace.Tracer) (*appliance.Client, error) {
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
