package bridge

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/appliance"
	"ndrbridge/configs"
	"ndrbridge/poller"
)

// makeSources makes a client for each appliance, and a poller for each of its
// streams.
func (b *Bridge) makeSources(registry *prometheus.Registry, o Options) error {
	metrics := poller.NewMetrics(registry)
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ndrbridge_source_requests_total",
		Help: "Requests to the appliance, by status code, or by what failed where no answer came: dns, connect, tls, timeout, canceled, other.",
	}, []string{"appliance", "code"})
	registry.MustRegister(requests)

	for _, a := range b.config.Appliances {
		client, err := newClient(a, o.Version, func(code string) { requests.WithLabelValues(a.Name, code).Inc() })
		if err != nil {
			return fmt.Errorf("appliance %s: %w", a.Name, err)
		}
		b.clients = append(b.clients, client)
		if !a.Detections.Enabled {
			continue
		}
		filter, err := filterJSON(a.Detections.Filter)
		if err != nil {
			return fmt.Errorf("appliance %s: %w", a.Name, err)
		}
		d := a.Detections
		source := poller.NewDetections(client, b.store, poller.DetectionsOptions{
			Appliance: a.Name, URL: a.URL, Filter: filter,
			Start:          d.Start.At,
			Overlap:        time.Duration(d.Overlap),
			PageSize:       d.PageSize,
			ReconcileEvery: time.Duration(d.Reconcile.Every),
			ReconcileBack:  time.Duration(d.Reconcile.Back),
			ForgetAfter:    time.Duration(d.ForgetAfter),
			TypePrefix:     b.config.Events.TypePrefix,
			Now:            time.Now,
			Log:            streamLog(o.Log, a.Name, "detections"),
			Metrics:        metrics,
		})
		b.pollers = append(b.pollers, poller.New(source, poller.Options{
			Interval:         time.Duration(d.Interval),
			RetryInitial:     time.Duration(a.Retry.Initial),
			RetryMax:         time.Duration(a.Retry.Max),
			AuthRetry:        time.Duration(a.AuthRetry),
			UnreachableAfter: a.UnreachableAfter,
			Log:              streamLog(o.Log, a.Name, "detections"),
			Metrics:          metrics,
		}))
	}
	return nil
}

func streamLog(log *slog.Logger, appliance, stream string) *slog.Logger {
	return log.With("appliance", appliance, "stream", stream)
}

// filterJSON is the filter as the interface takes it; nil where it filters
// nothing.
func filterJSON(f configs.DetectionFilter) (json.RawMessage, error) {
	b, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("detections.filter: %w", err)
	}
	if string(b) == "{}" {
		return nil, nil
	}
	return b, nil
}

func newClient(a configs.Appliance, version string, observe func(code string)) (*appliance.Client, error) {
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
