package bridge

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/sinks"
	"ndrbridge/sinks/file"
	"ndrbridge/sinks/kafka"
	"ndrbridge/sinks/nats"
	"ndrbridge/sinks/webhook"
	"ndrbridge/transform"
)

// makeSinks makes a runner for each sink, and says to the state which there
// are.
func (b *Bridge) makeSinks(ctx context.Context, registry *prometheus.Registry, o Options) error {
	metrics := sinks.NewMetrics(registry)
	starts := make(map[string]checkpoint.Start)
	for _, s := range b.config.Sinks {
		open := func() (sinks.Sink, error) { return openSink(s, o) }
		// What is wrong with the configuration itself is told now, not while
		// running.
		sink, err := open()
		if err != nil {
			return fmt.Errorf("sink %s: %w", s.Name, err)
		}
		if err := sink.Close(); err != nil {
			return fmt.Errorf("sink %s: %w", s.Name, err)
		}
		prepare, err := prepareFor(s)
		if err != nil {
			return fmt.Errorf("sink %s: %w", s.Name, err)
		}
		starts[s.Name] = checkpoint.Start{Now: s.Start.IsNow(), Since: s.Start.At(time.Now())}
		b.runners = append(b.runners, sinks.NewRunner(b.store, sinks.Options{
			Name:         s.Name,
			Open:         open,
			Batch:        checkpoint.Batch{MaxEvents: s.Batch.MaxEvents, MaxBytes: int(s.Batch.MaxBytes)},
			Linger:       time.Duration(s.Batch.Linger),
			RetryInitial: time.Duration(s.Retry.Initial),
			RetryMax:     time.Duration(s.Retry.Max),
			MaxAttempts:  s.MaxAttempts,
			Probe:        time.Duration(s.Probe),
			RateLimit:    s.RateLimit,
			Prepare:      prepare,
			Grace:        time.Duration(b.config.ShutdownTimeout),
			Log:          o.Log.With("sink", s.Name),
			Metrics:      metrics,
		}))
	}
	if err := b.store.Configure(ctx, starts); err != nil {
		return fmt.Errorf("tell the state which sinks there are: %w", err)
	}
	stats, err := b.store.Stats(ctx)
	if err != nil {
		return fmt.Errorf("read the state: %w", err)
	}
	for name, s := range stats.Sinks {
		if missed := stats.First - 1; s.Configured && s.Cursor < missed {
			o.Log.Warn("events were trimmed while the sink was not configured; it goes on behind them",
				"sink", name, "missed_events", missed-s.Cursor)
		}
		if !s.Configured {
			o.Log.Warn("the state has a cursor of a sink that is not configured; it holds nothing back, and is kept",
				"sink", name, "lag_events", s.LagEvents)
		}
	}
	return nil
}

// prepareFor is what a sink sends of an event; nil: all of it.
func prepareFor(s configs.Sink) (func(transform.Event) (transform.Event, error), error) {
	if len(s.Redact) == 0 {
		return nil, nil
	}
	redaction, err := transform.ParseRedaction(s.Redact)
	if err != nil {
		return nil, fmt.Errorf("redact: %w", err)
	}
	return redaction.Apply, nil
}

// openSink makes a sink. It reads the secrets anew each time.
func openSink(s configs.Sink, o Options) (sinks.Sink, error) {
	mode := transform.Mode(s.Mode)
	switch {
	case s.Kafka != nil:
		return openKafka(*s.Kafka, mode)
	case s.NATS != nil:
		return openNATS(*s.NATS, mode)
	case s.Webhook != nil:
		return openWebhook(*s.Webhook, mode, o.Version)
	default:
		return file.New(file.Options{
			Path: s.File.Path, MaxBytes: int64(s.File.Rotate.MaxBytes), Keep: s.File.Rotate.Keep, Out: o.Stdout,
		})
	}
}

func openKafka(k configs.Kafka, mode transform.Mode) (sinks.Sink, error) {
	tlsConfig, err := optionalTLS(k.TLS)
	if err != nil {
		return nil, err
	}
	o := kafka.Options{
		Brokers: k.Brokers, Topic: k.Topic, Mode: mode, Acks: k.Acks, Compression: k.Compression,
		TLS: tlsConfig, MaxMessageBytes: int(k.MaxMessageBytes), ClientID: k.ClientID,
	}
	if k.SASL.Mechanism != "" {
		password, err := k.SASL.Password.Read()
		if err != nil {
			return nil, fmt.Errorf("sasl.password: %w", err)
		}
		o.SASL = &kafka.SASL{Mechanism: k.SASL.Mechanism, Username: k.SASL.Username, Password: password}
	}
	return kafka.New(o)
}

func openNATS(n configs.NATS, mode transform.Mode) (sinks.Sink, error) {
	tlsConfig, err := optionalTLS(n.TLS)
	if err != nil {
		return nil, err
	}
	token, err := n.Token.Read()
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	password, err := n.Password.Read()
	if err != nil {
		return nil, fmt.Errorf("password: %w", err)
	}
	return nats.New(nats.Options{
		URL: n.URL.Value(), Stream: n.Stream, Subject: n.Subject, CreateStream: n.CreateStream,
		CredsFile: n.CredsFile, NkeyFile: n.NKeyFile, Token: token, Username: n.Username, Password: password,
		TLS: tlsConfig, MaxPending: n.MaxPending, Mode: mode,
	})
}

func openWebhook(w configs.Webhook, mode transform.Mode, version string) (sinks.Sink, error) {
	tlsConfig, err := clientTLS(w.TLS)
	if err != nil {
		return nil, err
	}
	proxy, err := proxyURL(w.Proxy)
	if err != nil {
		return nil, err
	}
	bearer, err := w.Auth.Bearer.Read()
	if err != nil {
		return nil, fmt.Errorf("auth.bearer: %w", err)
	}
	password, err := w.Auth.Password.Read()
	if err != nil {
		return nil, fmt.Errorf("auth.password: %w", err)
	}
	headers := make(map[string]string, len(w.Headers))
	for name, value := range w.Headers {
		if headers[name], err = value.Read(); err != nil {
			return nil, fmt.Errorf("headers.%s: %w", name, err)
		}
	}
	return webhook.New(webhook.Options{
		URL: w.URL.Value(), Method: w.Method, Headers: headers,
		Bearer: bearer, Username: w.Auth.Username, Password: password,
		Mode: mode, Timeout: time.Duration(w.Timeout), TLS: tlsConfig, Proxy: proxy,
		UserAgent:   "ndrbridge/" + version,
		Concurrency: w.Concurrency, Gzip: w.Gzip,
	})
}

// optionalTLS returns nil where there is no tls block: the connection is in the
// clear, or the address says.
func optionalTLS(t *configs.TLS) (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	return clientTLS(*t)
}
