package preflight

import (
	"context"
	"io"
	"log/slog"
	"time"

	"ndrbridge/configs"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/pipeline/endpoint"
	"ndrbridge/sinks"
	"ndrbridge/sinks/kafka"
	"ndrbridge/sinks/nats"
	"ndrbridge/transform"
)

// checkSink tries a sink, opened as a runner opens it.
func checkSink(ctx context.Context, s configs.Sink, config *configs.Config, o Options) []finding.Finding {
	sure, possible, err := samples(s, config, o.Now())
	if err != nil {
		return unusable(err)
	}
	found, err := endpoint.CheckSink(ctx, s,
		endpoint.SinkOptions{Version: o.Version, Stdout: io.Discard, Log: slog.New(slog.DiscardHandler)},
		endpoint.Trial{Sure: sure, Possible: possible, Now: o.Now})
	if err != nil {
		return unusable(err)
	}
	return found
}

// samples returns one event of each kind that the configuration makes the bridge
// produce: sure are the ones whose sample the sink sends, possible the others: that match
// rejects a sample proves little about real events.
func samples(s configs.Sink, config *configs.Config, now time.Time) (sure, possible []transform.Event, err error) {
	selection, err := endpoint.Selection(s)
	if err != nil {
		return nil, nil, err
	}
	all, err := everyKind(config, now)
	for _, e := range all {
		if verdict, _ := selection.Decide(e); verdict != sinks.VerdictSend {
			possible = append(possible, e)
			continue
		}
		sure = append(sure, e)
	}
	return sure, possible, err
}

// sampleDetection has the fields that match expressions usually test.
const sampleDetection = `{"detection":{"id":1,"type":"sample","title":"Sample","categories":["sec","sec.attack"],"risk_score":99,"status":"new","start_time":1,"update_time":1,"mod_time":1},"changes":{"status":{"from":null,"to":"new"}}}`

// everyKind returns a sample event of each kind.
func everyKind(config *configs.Config, now time.Time) (all []transform.Event, err error) {
	add := func(e transform.Event, failed error) {
		if err == nil {
			err = failed
		}
		all = append(all, e)
	}
	for _, a := range config.Appliances {
		encoder := transform.Encoder{Appliance: a.Name}
		shown := func(path, kind, data string) {
			add(transform.New(transform.Attributes{
				ID: "sample", Source: "ndrbridge://" + a.Name + "/" + path, Type: transform.TypePrefix + kind,
				Subject: "1", Time: now, PartitionKey: "1", Appliance: a.Name, RecordedTime: now, SeverityNumber: 21, SeverityText: "CRITICAL",
			}, []byte(data)))
		}
		if a.Detections.Enabled {
			shown("detections", "detection.created", sampleDetection)
			shown("detections", "detection.updated", sampleDetection)
		}
		if a.Audit.Enabled {
			shown("auditlog", "audit.logged", `{"audit":{"id":1,"time":1,"occur_time":1,"body":{"operation":"Login","user":"sample"}}}`)
			add(encoder.AuditGap(transform.AuditGap{Reason: transform.GapPurged}, now))
		}
		for _, q := range a.Records {
			shown("records/"+q.Name, "record.stored", `{"record":{"_id":"1","_type":"~sample","_source":{}}}`)
		}
		add(encoder.Reachability(transform.Reachability{}, now))
		add(encoder.Reachability(transform.Reachability{Reachable: true}, now))
		if config.Tickets.Enabled {
			add(encoder.TicketApplied(transform.Ticket{}, now))
			add(encoder.TicketRejected(transform.Ticket{}, now))
		}
	}
	own := transform.Encoder{Appliance: transform.Bridge}
	if config.Events.Heartbeat > 0 {
		add(own.Heartbeat("", now, now))
	}
	for _, s := range config.Sinks {
		if s.Lag.Policy == configs.LagSkip {
			add(own.SinkSkipped(transform.Skipped{Sink: s.Name}, now))
		}
	}
	return all, err
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
	return sink.Check(ctx, nats.Trial{Reads: n.Subject, Durable: n.Durable, Now: o.Now})
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
	found := sink.Check(ctx, kafka.Trial{Sure: make([]transform.Event, 1), Reads: true, Now: o.Now})
	return append(found, finding.Finding{
		Step: "group " + k.Group, Result: finding.Untried, Detail: "whether the user may join the group is not known until it joins",
		Advice: "give the user the operation Read on the group, and see tickets from kafka in ndrbridge status",
	})
}
