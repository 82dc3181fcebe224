package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/failure"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/pipeline/endpoint"
	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// sendTimeout limits the sending of a test event, and then the search for why it failed.
const sendTimeout = 20 * time.Second

// sendTest sends a test event by the runner of a sink, whose target is not used by two at once.
func (c *control) sendTest(ctx context.Context, r admin.OfSink) (admin.TestSent, error) {
	s, err := c.sink(r.Sink)
	if err != nil {
		return admin.TestSent{}, err
	}
	c.log.Info("a test event is sent on request", "sink", r.Sink)
	o := endpoint.SinkOptions{Version: c.version, Stdout: io.Discard, Log: slog.New(slog.DiscardHandler), Lease: c.pipeline.lease()}
	return sendTest(ctx, s, o, c.all.sink(s.Name).runner.SendTest)
}

// SendTest sends a test event to a sink of a configuration, by a connection of its own and without
// a state. The answer says why it was not delivered. SendTest returns admin.ErrUnknown if the
// configuration does not have the sink.
func SendTest(ctx context.Context, config *configs.Config, sink string, o endpoint.SinkOptions) (admin.TestSent, error) {
	s, err := (&operator{config: config}).sink(sink)
	if err != nil {
		return admin.TestSent{}, err
	}
	return sendTest(ctx, s, o, func(ctx context.Context, e transform.Event) error {
		to, err := endpoint.OpenSink(s, o)
		if err != nil {
			return fmt.Errorf("open: %w", err)
		}
		defer to.Close()
		prepare, err := endpoint.Prepare(s, o.Version)
		if err == nil && prepare != nil {
			e, err = prepare(e)
		}
		if err != nil {
			return fmt.Errorf("prepare the event: %w", err)
		}
		return to.Send(ctx, []transform.Event{e})
	})
}

// sendTest sends a test event to s by send, and explains the result.
func sendTest(ctx context.Context, s configs.Sink, o endpoint.SinkOptions, send func(context.Context, transform.Event) error) (admin.TestSent, error) {
	begun := time.Now()
	e, err := transform.Encoder{Appliance: transform.Bridge}.SinkTest(s.Name, begun)
	if err != nil {
		return admin.TestSent{}, err
	}
	var receipts []string
	sending, cancel := context.WithTimeout(sinks.WithReceipts(ctx, func(text string) { receipts = append(receipts, text) }), sendTimeout)
	defer cancel()
	err = send(sending, e)
	if each, ok := errors.AsType[failure.EventErrors](err); ok && len(each) == 1 {
		err = each[0]
	}
	if ctx.Err() != nil {
		return admin.TestSent{}, ctx.Err()
	}
	sent := admin.TestSent{Sink: s.Name, Event: e.ID, Delivered: err == nil}
	if err == nil {
		if len(receipts) == 0 {
			receipts = []string{s.Summary()}
		}
		sent.Findings = []finding.Finding{
			{Step: "delivery", Result: finding.OK, Detail: fmt.Sprintf("%s, in %d ms", strings.Join(receipts, "; "), time.Since(begun).Milliseconds())},
			{Step: "look for", Result: finding.Remark, Detail: fmt.Sprintf("%q, an event with the type %s and the id %s", transform.TestTitle, e.Type, e.ID)},
		}
	} else {
		sent.Findings = explainFailure(ctx, s, o, e, err)
	}
	finding.Of("sink "+s.Name, sent.Findings)
	return sent, nil
}

// explainFailure returns the findings about an event that failed with err: the failure, and what a
// check of the sink finds wrong.
func explainFailure(ctx context.Context, s configs.Sink, o endpoint.SinkOptions, e transform.Event, err error) []finding.Finding {
	failed := finding.Failure("delivery", err)
	if failure.IsUnsent(err) {
		if failed.Advice == "" {
			failed.Advice = "correct template, redact or the limits of the sink; ndrbridge try render shows what it would send"
		}
		return []finding.Finding{failed}
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	found, err := endpoint.CheckSink(ctx, s, o, sinks.Trial{Sure: []transform.Event{e}, RetryMax: time.Duration(s.Retry.Max), Now: time.Now})
	if err != nil { // it cannot be opened, which failed says
		failed.Advice = "correct the named key, or the file it refers to"
	}
	found = slices.DeleteFunc(found, func(f finding.Finding) bool { return f.Result != finding.Failed && f.Result != finding.Warning })
	return append([]finding.Finding{failed}, found...)
}

// sink returns a sink of the configuration.
func (p *operator) sink(name string) (configs.Sink, error) {
	var names []string
	for _, s := range p.config.Sinks {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return configs.Sink{}, fmt.Errorf("%w sink %q: the configuration has %s", admin.ErrUnknown, name, strings.Join(names, ", "))
}
