package bridge

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/kafkawire"
	"ndrbridge/sinks"
	"ndrbridge/sinks/file"
	"ndrbridge/sinks/kafka"
	"ndrbridge/sinks/nats"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/render"
	"ndrbridge/transform"
	"ndrbridge/transform/match"
)

// sinkPart is a sink with its runner.
type sinkPart struct {
	config      configs.Sink
	fingerprint fingerprint
	options     sinks.Options // without PausedSince, which attach sets
	runner      *sinks.Runner
}

// buildSink returns current if its configuration is unchanged, or a new part that
// replaces it. A new part has no runner until attach is called.
func (b *Bridge) buildSink(s configs.Sink, config *configs.Config, current *sinkPart) (*sinkPart, error) {
	fp, err := newFingerprint(s.Files(), s, config.Events.TypePrefix)
	if err != nil {
		return nil, err
	}
	if current != nil && current.fingerprint.equal(fp) {
		return current, nil
	}
	open := func() (sinks.Sink, error) {
		return openSink(s, b.store, b.linkFor(s.Name), b.version, b.stdout, b.log.With("sink", s.Name))
	}
	// Open it once so that configuration errors are reported now, not while running.
	sink, err := open()
	if err != nil {
		return nil, err
	}
	if err := sink.Close(); err != nil {
		return nil, err
	}
	prepare, err := prepareFor(s)
	if err != nil {
		return nil, err
	}
	wanted, err := matchFor(s)
	if err != nil {
		return nil, err
	}
	return &sinkPart{config: s, fingerprint: fp, options: sinks.Options{
		Name:         s.Name,
		Open:         open,
		Batch:        checkpoint.Batch{MaxEvents: s.Batch.MaxEvents, MaxBytes: int(s.Batch.MaxBytes)},
		Linger:       time.Duration(s.Batch.Linger),
		RetryInitial: time.Duration(s.Retry.Initial),
		RetryMax:     time.Duration(s.Retry.Max),
		IsolateAfter: s.IsolateAfter,
		MaxAttempts:  s.MaxAttempts,
		Probe:        time.Duration(s.Probe),
		RateLimit:    s.RateLimit,
		Lag: sinks.Lag{
			Skip: s.Lag.Policy == configs.LagSkip, MaxAge: time.Duration(s.Lag.MaxAge), MaxBytes: int64(s.Lag.MaxBytes),
			Events: ownEvents(config),
		},
		Match: wanted, OnMatchError: sinks.MatchErrorPolicy(s.OnError),
		Prepare: prepare,
		Tracer:  b.tracer(), SpanAttributes: spanAttributes(s),
		Log:     b.log.With("sink", s.Name),
		Metrics: b.metrics.sinks,
	}}, nil
}

// attach makes the runner of a sink that is registered in the state. No other runner of
// that sink may run.
func (p *sinkPart) attach(journal sinks.Journal, stats checkpoint.SinkStats) {
	p.options.PausedSince = stats.PausedSince
	p.runner = sinks.NewRunner(journal, p.options)
}

func (p *sinkPart) name() string { return "sink " + p.config.Name }

func (p *sinkPart) start(ctx context.Context, ps *parts) {
	ps.start(ctx, p.name(), deliveryPhase, p.runner.Run)
}

// matchFor returns the predicate that selects the sink's events, or nil if it takes
// all.
func matchFor(s configs.Sink) (func(transform.Event) (bool, error), error) {
	if s.Match == "" {
		return nil, nil
	}
	wanted, err := match.Compile(s.Match)
	if err != nil {
		return nil, fmt.Errorf("match: %w", err)
	}
	return wanted.Matches, nil
}

// prepareFor returns the function that redacts an event before it is sent, or nil if
// nothing is redacted.
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

// memoryKept is the least time that a sink keeps its memory of a detection after the
// last new version of it. The memory of a detection that is still tracked is kept
// longer.
const memoryKept = 90 * 24 * time.Hour

// openSink makes a sink. It reads the secrets again on each call.
func openSink(s configs.Sink, memories checkpoint.Memories, link linkFunc, version string, stdout io.Writer, log *slog.Logger) (sinks.Sink, error) {
	mode := transform.Mode(s.Mode)
	switch {
	case s.Kafka != nil:
		return openKafka(*s.Kafka, mode)
	case s.NATS != nil:
		return openNATS(s.Name, *s.NATS, mode)
	case s.Webhook != nil:
		memory := &webhook.Memory{Store: memories, Sink: s.Name, Keep: memoryKept}
		return openWebhook(*s.Webhook, mode, memory, link, version)
	default:
		return file.New(file.Options{
			Path: s.File.Path, MaxBytes: int64(s.File.Rotate.MaxBytes), Keep: s.File.Rotate.Keep, Out: stdout, Log: log,
		})
	}
}

func openKafka(k configs.Kafka, mode transform.Mode) (sinks.Sink, error) {
	o, err := kafkaConnection(k)
	if err != nil {
		return nil, err
	}
	o.Topic, o.Mode, o.Acks, o.Compression = k.Topic, mode, k.Acks, k.Compression
	o.MaxMessageBytes, o.ClientID = int(k.MaxMessageBytes), k.ClientID
	if t := k.CreateTopic; t != nil {
		o.CreateTopic = &kafka.CreateTopic{Partitions: t.Partitions, Replication: t.Replication}
	}
	return kafka.New(o)
}

// kafkaConnection returns the options needed to connect, with the secrets read.
func kafkaConnection(k configs.Kafka) (kafka.Options, error) {
	tlsConfig, err := optionalTLS(k.TLS)
	if err != nil {
		return kafka.Options{}, err
	}
	o := kafka.Options{Brokers: k.Brokers, TLS: tlsConfig}
	if k.SASL.Mechanism != "" {
		password, err := k.SASL.Password.Read()
		if err != nil {
			return kafka.Options{}, fmt.Errorf("sasl.password: %w", err)
		}
		o.SASL = &kafkawire.SASL{Mechanism: k.SASL.Mechanism, Username: k.SASL.Username, Password: password}
	}
	return o, nil
}

func openNATS(name string, n configs.NATS, mode transform.Mode) (sinks.Sink, error) {
	o, err := natsConnection(n)
	if err != nil {
		return nil, err
	}
	o.Sink = name
	o.Stream, o.Subject, o.CreateStream = n.Stream, n.Subject, n.CreateStream
	o.MaxPending, o.Mode = n.MaxPending, mode
	return nats.New(o)
}

// natsConnection returns the options needed to connect, with the secrets read.
func natsConnection(n configs.NATS) (nats.Options, error) {
	tlsConfig, err := optionalTLS(n.TLS)
	if err != nil {
		return nats.Options{}, err
	}
	token, err := n.Token.Read()
	if err != nil {
		return nats.Options{}, fmt.Errorf("token: %w", err)
	}
	password, err := n.Password.Read()
	if err != nil {
		return nats.Options{}, fmt.Errorf("password: %w", err)
	}
	return nats.Options{
		URL: n.URL.Value(), CredsFile: n.CredsFile, NkeyFile: n.NKeyFile, Token: token,
		Username: n.Username, Password: password, TLS: tlsConfig,
	}, nil
}

func openWebhook(w configs.Webhook, mode transform.Mode, memory *webhook.Memory, link linkFunc, version string) (sinks.Sink, error) {
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
	preset, err := openPreset(w, link)
	if err != nil {
		return nil, err
	}
	headers, err := readHeaders(w.Headers)
	if err != nil {
		return nil, err
	}
	secrets, err := w.Sign.Read()
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	var template *render.Template
	if preset == nil {
		if template, err = webhookTemplate(w); err != nil {
			return nil, fmt.Errorf("template: %w", err)
		}
	}
	var handshake *webhook.Handshake
	if h := w.Handshake; h != nil {
		handshake = &webhook.Handshake{Origin: h.Origin, Rate: h.Rate}
	}
	return webhook.New(webhook.Options{
		URL: w.URL.Value(), Method: w.Method, Headers: headers,
		Bearer: bearer, Username: w.Auth.Username, Password: password,
		Mode: mode, Preset: preset, Memory: memory, Timeout: time.Duration(w.Timeout), TLS: tlsConfig, Proxy: proxy,
		UserAgent:   "ndrbridge/" + version,
		Concurrency: w.Concurrency, Gzip: w.Gzip,
		Template: template, SignSecrets: secrets, Handshake: handshake,
		MaxBodyBytes: int(w.MaxBodyBytes), AllowLinkLocal: w.AllowLinkLocal,
	})
}

// webhookTemplate returns the template that renders bodies, or nil if bodies are
// CloudEvents.
func webhookTemplate(w configs.Webhook) (*render.Template, error) {
	text, err := w.ReadTemplate()
	if err != nil || text == "" {
		return nil, err
	}
	return render.Compile(text, w.JSON())
}

// optionalTLS returns nil if there is no tls block; the scheme of the address then
// decides whether TLS is used.
func optionalTLS(t *configs.TLS) (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	return clientTLS(*t)
}
