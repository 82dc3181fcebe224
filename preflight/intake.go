package preflight

import (
	"context"

	"ndrbridge/configs"
	"ndrbridge/pipeline/endpoint"
	"ndrbridge/preflight/finding"
	"ndrbridge/sinks/kafka"
	"ndrbridge/sinks/nats"
	"ndrbridge/transform"
)

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
