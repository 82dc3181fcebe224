package main

import (
	"context"

	"ndrbridge/transform"
)

// drain is the delivery of a backlog to one or several sinks.
type drain struct {
	name    string
	title   string
	targets []target
}

// target is a sink of the bridge and the equivalent bare client.
type target struct {
	receives string // a receiver's kind; empty: a file
	// sink returns the configuration of a sink at an address, without name and start.
	sink func(address string) map[string]any
	// bare delivers the events to an address and returns when all are acknowledged.
	bare func(ctx context.Context, address string, events []transform.Event) error
}

// batch is the default batch size of the bridge, which the bare clients use as well.
const batch = 500

var drains = []drain{
	{"kafka", "Kafka, zstd", []target{kafkaTarget("zstd")}},
	{"kafka-lz4", "Kafka, lz4", []target{kafkaTarget("lz4")}},
	{"nats", "NATS JetStream", []target{natsTarget}},
	{"webhook", "webhook, one a request", []target{webhookTarget}},
	{"webhook-100", "webhook, 100 a request", []target{webhookBatch(100)}},
	{"webhook-500", "webhook, 500 a request", []target{webhookBatch(500)}},
	{"file", "file, a sync every 500", []target{fileTarget}},
	{"nats+webhook", "JetStream and webhook of 100", []target{natsTarget, webhookBatch(100)}},
}

func kafkaTarget(compression string) target {
	return target{
		receives: "kafka",
		sink: func(address string) map[string]any {
			return map[string]any{"kafka": map[string]any{
				"brokers": []string{address}, "topic": topic, "compression": compression, "acks": "all",
			}}
		},
		bare: func(ctx context.Context, address string, events []transform.Event) error {
			return produce(ctx, address, compression, events)
		},
	}
}

var natsTarget = target{
	receives: "nats",
	sink: func(address string) map[string]any {
		return map[string]any{"nats": map[string]any{"url": address, "stream": stream, "subject": subject}}
	},
	bare: publish,
}

var webhookTarget = target{
	receives: "http",
	sink: func(address string) map[string]any {
		return map[string]any{"webhook": map[string]any{"url": address}}
	},
	bare: post,
}

func webhookBatch(size int) target {
	return target{
		receives: "http",
		sink: func(address string) map[string]any {
			return map[string]any{
				"webhook": map[string]any{"url": address},
				"mode":    "batch",
				// By default a batch is limited to 1 MiB, which is less than 500 events.
				"batch": map[string]any{"max_events": size, "max_bytes": "4MiB"},
			}
		},
		bare: func(ctx context.Context, address string, events []transform.Event) error {
			return postBatches(ctx, address, events, size)
		},
	}
}

var fileTarget = target{
	sink: func(path string) map[string]any {
		return map[string]any{"file": map[string]any{"path": path, "rotate": map[string]any{"max_bytes": 0}}}
	},
	bare: write,
}
