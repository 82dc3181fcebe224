package endpoint

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"ndrbridge/configs"
	"ndrbridge/internal/finding"
	"ndrbridge/sinks"
	"ndrbridge/sinks/file"
	"ndrbridge/sinks/kafka"
	"ndrbridge/sinks/nats"
	"ndrbridge/sinks/syslog"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/presets"
	"ndrbridge/transform"
)

// kind is a kind of sink.
type kind struct {
	name     string // the key of its block in the configuration
	open     func(configs.Sink, SinkOptions) (checkedSink, error)
	examples []Example
}

// checkedSink is a sink that can be tried without sending an event.
type checkedSink interface {
	sinks.Sink
	Check(context.Context, sinks.Trial) []finding.Finding
}

// Example is a sink of a small configuration.
type Example struct {
	Name, About string
	YAML        string // the keys of the sink besides its name, as they stand in a list
	webhook.Guide
}

// Urgent reports whether the events call people: the sink is a pager, a chat or opens tickets.
func (e Example) Urgent() bool { return strings.HasSuffix(e.YAML, urgent) }

const urgent = "    match: detection.risk_score >= 80 # leave it out for all events\n"

// kinds returns all kinds of sinks.
func kinds() []kind {
	return []kind{
		{"file", openFile, []Example{
			{"stdout", "standard output, one event per line", "    file: {path: \"-\"}\n", webhook.Guide{}},
			{"file", "a file, one event per line", "    file: {path: ./events.jsonl}\n", webhook.Guide{}},
		}},
		{"kafka", openKafka, []Example{
			{"kafka", "Kafka", `    kafka:
      brokers: [kafka.example.com:9092]
      topic: ndr.{stream} # {stream} is detections, audit, records or events
      #create_topic: {partitions: 6} # creates missing topics
      #tls: {} # encrypts with the system's certificate authorities
      #sasl: {mechanism: scram-sha-512, username: ndrbridge, password_file: ./kafka.key}
    #format: ocsf # instead of CloudEvents; or ecs, cef, leef
`, webhook.Guide{
				Title: "Kafka", Prepare: "create the topics ndr.detections, ndr.audit and ndr.events, or remove the # before create_topic; if the brokers require a login, create a user that may describe and write them, and remove the # before sasl",
				Look: "the topic `ndr.detections` has a message for each version of a detection, with its id as the key",
			}},
		}},
		{"nats", openNATS, []Example{
			{"nats", "NATS JetStream", `    nats:
      url: nats://nats.example.com:4222
      stream: NDR
      subject: ndr.{appliance}.{stream}.{action}
      #creds_file: ./nats.creds
`, webhook.Guide{
				Title: "NATS", Prepare: "create the stream NDR with the subjects ndr.>, or set create_stream; if the servers require a login, create a user that may publish to ndr.> and $JS.API.STREAM.>",
				Look: "`nats sub 'ndr.>'` prints the events",
			}},
		}},
		{"syslog", openSyslog, []Example{
			{"syslog", "syslog over TLS, as JSON", `    syslog: {address: "siem.example.com:6514", network: tls}
`, webhook.Guide{}},
			{"cef", "syslog over TLS, in the Common Event Format", `    syslog: {address: "siem.example.com:6514", network: tls}
    format: cef
`, webhook.Guide{}},
			{"leef", "syslog over TLS, in the Log Event Extended Format", `    syslog: {address: "siem.example.com:6514", network: tls}
    format: leef
`, webhook.Guide{}},
		}},
		{"webhook", openWebhook, slices.Concat([]Example{
			{"webhook", "an HTTP endpoint that takes CloudEvents", `    webhook:
      url: https://collector.example.com/events
      auth: {bearer_file: ./webhook.key} # a file with the token and nothing else
`, webhook.Guide{}},
		}, presetExamples(), []Example{
			{"jira", "an issue in Jira for each detection", `    webhook:
      url: https://REPLACE.atlassian.net
      auth: {username: ndrbridge@example.com, password_file: ./jira.key} # a file with the account's API token
      ticket: {system: jira, project: SEC, link: false}
` + urgent, webhook.Guide{
				Title: "Jira", Prepare: "create an account that may browse, create and edit issues and add comments in the project, and an API token of it",
				Look: "the project has an issue for each detection",
			}},
			{"servicenow", "an incident in ServiceNow for each detection", `    webhook:
      url: https://REPLACE.service-now.com
      auth: {username: ndrbridge, password_file: ./servicenow.key} # a file with the account's password
      ticket: {system: servicenow, link: false}
` + urgent, webhook.Guide{}},
			{"rt", "a ticket in Request Tracker for each detection", `    webhook:
      url: https://rt.example.com
      auth: {bearer_file: ./rt.key} # a file with an authentication token of the account
      ticket: {system: rt, project: SOC, link: false} # the queue
` + urgent, webhook.Guide{}},
			{"redmine", "an issue in Redmine for each detection", `    webhook:
      url: https://redmine.example.com
      auth: {bearer_file: ./redmine.key} # a file with the API access key of the account
      ticket: {system: redmine, project: soc, link: false}
` + urgent, webhook.Guide{}},
		})},
	}
}

func presetExamples() (all []Example) {
	for _, p := range presets.All() {
		all = append(all, Example{p.Name, p.About, p.Example, p.Guide})
	}
	return all
}

// kindOf returns the kind of a sink.
func kindOf(s configs.Sink) (kind, error) {
	all := kinds()
	i := slices.IndexFunc(all, func(k kind) bool { return k.name == s.Kind() })
	if i < 0 {
		return kind{}, fmt.Errorf("there is no kind of sinks %q", s.Kind())
	}
	return all[i], nil
}

// Examples returns an example of each kind of sink, or several.
func Examples() (all []Example) {
	for _, k := range kinds() {
		all = append(all, k.examples...)
	}
	return all
}

// OpenSink makes a sink. It reads the secrets again on each call.
func OpenSink(s configs.Sink, o SinkOptions) (sinks.Sink, error) {
	k, err := kindOf(s)
	if err != nil {
		return nil, err
	}
	return k.open(s, o)
}

// CheckSink opens a sink and tries it without sending an event. The error is that of opening it.
func CheckSink(ctx context.Context, s configs.Sink, o SinkOptions, t sinks.Trial) ([]finding.Finding, error) {
	k, err := kindOf(s)
	if err != nil {
		return nil, err
	}
	sink, err := k.open(s, o)
	if err != nil {
		return nil, err
	}
	defer sink.Close()
	return sink.Check(ctx, t), nil
}

func openFile(s configs.Sink, o SinkOptions) (checkedSink, error) {
	return file.New(file.Options{
		Path: s.File.Path, MaxBytes: int64(s.File.Rotate.MaxBytes), Keep: s.File.Rotate.Keep, Out: o.Stdout, Log: o.Log,
	}), nil
}

func openKafka(s configs.Sink, options SinkOptions) (checkedSink, error) {
	k := *s.Kafka
	o, err := Kafka(k)
	if err != nil {
		return nil, err
	}
	o.Topic, o.Mode, o.Acks, o.Compression = k.Topic, transform.Mode(s.Mode), k.Acks, k.Compression
	o.MaxMessageBytes, o.ClientID, o.Lease = int(k.MaxMessageBytes), k.ClientID, options.Lease
	if t := k.CreateTopic; t != nil {
		o.CreateTopic = &kafka.CreateTopic{Partitions: t.Partitions, Replication: t.Replication}
	}
	return kafka.New(o)
}

func openNATS(s configs.Sink, options SinkOptions) (checkedSink, error) {
	n := *s.NATS
	o, err := NATS(n)
	if err != nil {
		return nil, err
	}
	o.Sink, o.Lease = s.Name, options.Lease
	o.Stream, o.Subject, o.CreateStream = n.Stream, n.Subject, n.CreateStream
	o.MaxPending, o.Mode = n.MaxPending, transform.Mode(s.Mode)
	return nats.New(o)
}

func openSyslog(sink configs.Sink, o SinkOptions) (checkedSink, error) {
	s := *sink.Syslog
	to := syslog.Options{
		Address: s.Address, Network: s.Network, Facility: s.Facility, AppName: s.AppName, Hostname: s.Hostname,
		Framing: s.Framing, MaxBytes: int(s.MaxBytes), Lease: o.Lease, Log: o.Log,
	}
	if s.Network == configs.SyslogTLS {
		var settings configs.TLS
		if s.TLS != nil {
			settings = *s.TLS
		}
		var err error
		if to.TLS, err = newTLS(settings); err != nil {
			return nil, err
		}
	}
	return syslog.New(to), nil
}
