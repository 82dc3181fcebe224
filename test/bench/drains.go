package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

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
	// receive starts a receiver with its files in dir.
	receive func(dir string) (*receiver, error)
	// sink returns the configuration of a sink at an address, without name and start.
	sink func(address string) map[string]any
	// bare delivers the events to an address and returns when all are acknowledged.
	bare func(ctx context.Context, address string, events []transform.Event) error
}

// batch is the default batch size of the bridge, which the bare clients use as well.
const batch = 500

var allDrains = []drain{
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
		receive: receiveKafka,
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
	receive: receiveNATS,
	sink: func(address string) map[string]any {
		return map[string]any{"nats": map[string]any{"url": address, "stream": stream, "subject": subject, "create_stream": true}}
	},
	bare: publish,
}

var webhookTarget = target{
	receive: receiveHTTP,
	sink: func(address string) map[string]any {
		return map[string]any{"webhook": map[string]any{"url": address}}
	},
	bare: post,
}

func webhookBatch(size int) target {
	return target{
		receive: receiveHTTP,
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
	receive: receiveFile,
	sink: func(path string) map[string]any {
		return map[string]any{"file": map[string]any{"path": path, "rotate": map[string]any{"max_bytes": 0}}}
	},
	bare: write,
}

// drains runs each requested drain the requested number of times, the bridge and the bare
// client in turn, so that other load on the machine affects both.
func (b *bench) drains(ctx context.Context, r *report) (err error) {
	wanted := slices.DeleteFunc(slices.Clone(allDrains), func(d drain) bool { return !b.selects(d.name) })
	if len(wanted) == 0 {
		return nil
	}
	url, stop, err := b.startAppliance(ctx, b.events, 24*time.Hour)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	b.say("the events for the bare clients")
	events := filepath.Join(b.dir, "events.jsonl")
	if err := b.run(ctx, patience, func(ctx context.Context, dir string) error {
		_, err := b.drain(ctx, url, drain{targets: []target{fileTarget}}, dir, []string{events})
		return err
	}); err != nil {
		return fmt.Errorf("get the events: %w", err)
	}
	info, err := os.Stat(events)
	if err != nil {
		return err
	}
	r.EventBytes = int(info.Size())/b.events - 1
	for _, d := range wanted {
		var bridge, bare []figures
		for n := range b.runs {
			b.say("%s: run %d of %d", d.title, n+1, b.runs)
			f, err := b.receive(ctx, d, func(ctx context.Context, dir string, addresses []string) (figures, error) {
				return b.drain(ctx, url, d, dir, addresses)
			})
			if err != nil {
				return fmt.Errorf("%s, the bridge: %w", d.title, err)
			}
			bridge = append(bridge, f)
			f, err = b.receive(ctx, d, func(ctx context.Context, _ string, addresses []string) (figures, error) {
				return b.bareClient(ctx, d, events, addresses)
			})
			if err != nil {
				return fmt.Errorf("%s, the bare client: %w", d.title, err)
			}
			bare = append(bare, f)
		}
		r.add(d, b.events, bridge, bare)
	}
	return nil
}

// receive runs a drain with new receivers and checks that each received every event once.
func (b *bench) receive(ctx context.Context, d drain, send func(ctx context.Context, dir string, addresses []string) (figures, error)) (f figures, err error) {
	err = b.run(ctx, patience, func(ctx context.Context, dir string) error {
		var receivers []*receiver
		var addresses []string
		for i, t := range d.targets {
			own := filepath.Join(dir, strconv.Itoa(i))
			if err := os.Mkdir(own, 0o700); err != nil {
				return err
			}
			r, err := t.receive(own)
			if err != nil {
				return err
			}
			defer r.stop()
			receivers, addresses = append(receivers, r), append(addresses, r.address)
		}
		if f, err = send(ctx, dir, addresses); err != nil {
			return err
		}
		for _, r := range receivers {
			if n, err := r.count(); err != nil || n != int64(b.events) {
				return errors.Join(fmt.Errorf("%s received %d events, want %d", r.address, n, b.events), err)
			}
		}
		return nil
	})
	return f, err
}

// drain runs the bridge from its start until every sink has delivered every event. Its
// resources are counted until the process has ended.
func (b *bench) drain(ctx context.Context, url string, d drain, dir string, addresses []string) (figures, error) {
	sinks := make([]map[string]any, len(d.targets))
	for i, t := range d.targets {
		sinks[i] = t.sink(addresses[i])
	}
	began := time.Now()
	s, err := b.startBridge(ctx, dir, configuration(dir, sinks, applianceAt(url, map[string]any{})))
	if err != nil {
		return figures{}, err
	}
	err = s.await(ctx, b.events, len(sinks))
	took := time.Since(began)
	cpu, m, stopErr := s.stop()
	return figures{Seconds: took.Seconds(), CPU: cpu.Seconds(), Anon: m.anon, Resident: m.resident}, errors.Join(err, stopErr)
}

// bareClient runs the bare client libraries.
func (b *bench) bareClient(ctx context.Context, d drain, events string, addresses []string) (f figures, err error) {
	c := command(ctx, b.self, append([]string{roleClient, d.name, events}, addresses...)...)
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return f, fmt.Errorf("%w: %s", err, stderr.String())
	}
	return f, json.Unmarshal(out, &f)
}
