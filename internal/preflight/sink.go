package preflight

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"time"

	"ndrbridge/configs"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/fixture"
	"ndrbridge/internal/pipeline/endpoint"
	"ndrbridge/sinks"
	"ndrbridge/sinks/kafka"
	"ndrbridge/sinks/nats"
	"ndrbridge/transform"
)

// checkSink tries a sink, opened as a runner opens it.
func checkSink(ctx context.Context, s configs.Sink, config *configs.Config, o Options) []finding.Finding {
	sure, possible, err := samples(s, config)
	if err != nil {
		return unusable(err)
	}
	found, err := endpoint.CheckSink(ctx, s,
		endpoint.SinkOptions{Version: o.Version, Stdout: io.Discard, Log: slog.New(slog.DiscardHandler)},
		sinks.Trial{Sure: sure, Possible: possible, RetryMax: time.Duration(s.Retry.Max), Now: o.Now})
	if err != nil {
		return unusable(err)
	}
	return found
}

// samples returns one event of each kind that the configuration makes the bridge
// produce: sure are the ones whose sample the sink sends, possible the others: that match
// rejects a sample proves little about real events.
func samples(s configs.Sink, config *configs.Config) (sure, possible []transform.Event, err error) {
	selection, err := endpoint.Selection(s)
	if err != nil {
		return nil, nil, err
	}
	for _, spec := range everyKind(config) {
		e, err := fixture.Event(spec)
		if err != nil {
			return nil, nil, err
		}
		if verdict, _ := selection.Decide(e); verdict != sinks.VerdictSend {
			possible = append(possible, e)
			continue
		}
		sure = append(sure, e)
	}
	return sure, possible, nil
}

// everyKind describes a sample of each kind of event.
func everyKind(config *configs.Config) (all []fixture.Spec) {
	of := ""
	add := func(produced bool, names ...string) {
		for _, name := range names {
			if produced {
				all = append(all, fixture.Spec{Name: name, Appliance: of})
			}
		}
	}
	for _, a := range config.Appliances {
		of = a.Name
		if a.Detections.Enabled {
			urgent := map[string]any{"risk_score": 99}
			all = append(all, fixture.Spec{Name: "detection.created", Appliance: of, Set: urgent}, fixture.Spec{Name: "detection.updated", Appliance: of, Set: urgent})
			for _, kind := range a.Detections.Reconcile.Report {
				add(true, "detection."+kind)
			}
			add(a.Notes.In, "detection.noted")
			add(a.Evidence.Match != "", "detection.evidence")
		}
		add(a.Context.Devices, "detection.context")
		add(a.Rules.Enabled, "rule.created", "rule.updated", "rule.expired", "rule.removed")
		add(a.BlindSpots.ExclusionIntervals || a.BlindSpots.Alerts || a.BlindSpots.RecordIngest || config.Tickets.Enabled, "blindspot.opened", "blindspot.closed")
		add(a.Audit.Enabled, "audit.logged", "audit.gap")
		for _, q := range a.Records {
			all = append(all, fixture.Spec{Name: "record.stored", Appliance: of, Query: q.Name})
		}
		add(true, "appliance.unreachable", "appliance.reachable")
		add(config.Tickets.Enabled, "ticket.applied", "ticket.rejected")
		add(opensTickets(config, func(configs.TicketOpener) bool { return true }), "ticket.opened")
		add(opensTickets(config, func(t configs.TicketOpener) bool { return t.Follow != nil }), "ticket.updated", "ticket.conflict", "ticket.lost")
		add(a.Rules.Write, "rule.applied", "rule.rejected")
		add(config.WritesNotes(a), "note.applied", "note.rejected")
	}
	add(true, "sink.halted", "sink.resumed")
	add(config.Events.Heartbeat > 0, "heartbeat")
	add(slices.ContainsFunc(config.Sinks, func(s configs.Sink) bool { return s.Lag.Policy == configs.LagSkip }), "sink.skipped")
	return all
}

// opensTickets reports whether a sink opens tickets in a way.
func opensTickets(config *configs.Config, in func(configs.TicketOpener) bool) bool {
	return slices.ContainsFunc(config.Sinks, func(s configs.Sink) bool {
		return s.Webhook != nil && s.Webhook.Ticket != nil && in(*s.Webhook.Ticket)
	})
}

// checkNATSIntake tries an intake by means of a sink on the same servers that does not
// publish.
func checkNATSIntake(ctx context.Context, n configs.NATSIntake, o Options) []finding.Finding {
	options, err := endpoint.NATS(n.Connection())
	if err != nil {
		return unusable(err)
	}
	const unused = "tickets" // a sink needs a subject without wildcards
	options.Sink, options.Stream, options.Subject = unused, n.Stream, unused
	sink, err := nats.New(options)
	if err != nil {
		return unusable(err)
	}
	defer sink.Close()
	return sink.Check(ctx, sinks.Trial{Reads: n.Subject, Durable: n.Durable, Now: o.Now})
}

// checkKafkaIntake tries an intake by means of a sink on the same brokers that does not
// produce.
func checkKafkaIntake(ctx context.Context, k configs.KafkaIntake, o Options) []finding.Finding {
	options, err := endpoint.Kafka(k.Connection())
	if err != nil {
		return unusable(err)
	}
	options.Topic = k.Topic
	sink, err := kafka.New(options)
	if err != nil {
		return unusable(err)
	}
	defer sink.Close()
	// Any event will do: the topic name has no placeholders.
	found := sink.Check(ctx, sinks.Trial{Sure: make([]transform.Event, 1), Reads: k.Topic, Now: o.Now})
	return append(found, finding.Finding{
		Step: "group " + k.Group, Result: finding.Untried, Detail: "whether the user may join the group is not known until it joins",
		Advice: "give the user the operation Read on the group, and see tickets from kafka in ndrbridge status",
	})
}
