package configs

import (
	"reflect"
	"slices"
	"strings"

	"ndrbridge/transform/match"
)

// Sink is a destination of events. Exactly one of [Sink.Kafka], [Sink.NATS],
// [Sink.Webhook], [Sink.Syslog] and [Sink.File] must be present.
//
//	sinks:
//	  - name: lake
//	    kafka: {brokers: ["127.0.0.1:9092"], topic: "ndr.{stream}"}
//	    match: event.stream == "detections" && detection.risk_score >= 60
//	    lag: {max_age: 7d, policy: skip}
//	    redact: [detection.participants.username]
type Sink struct {
	// Name identifies the sink in metric labels and commands: 1 to 63 of a-z, 0-9 and -.
	// It must be unique.
	Name    string   `yaml:"name" required:"true" form:"name"`
	Kafka   *Kafka   `yaml:"kafka"`
	NATS    *NATS    `yaml:"nats"`
	Webhook *Webhook `yaml:"webhook"`
	Syslog  *Syslog  `yaml:"syslog"`
	File    *File    `yaml:"file"`
	// Format is the format in which events are sent: cloudevents; ocsf (1.8.0) or ecs
	// (9.4.0), which are JSON; cef (CEF:0) or leef (LEEF:2.0), which are lines of text.
	// Leave it out with a template, tickets, and the presets of chats and pagers.
	Format string `yaml:"format" default:"cloudevents" oneof:"cloudevents,ocsf,ecs,cef,leef"`
	// Mode is how events are carried: structured, one document in each message; binary, of
	// CloudEvents only, and not in files and over syslog; or batch, for webhooks only. Leave it out with a
	// preset, a template or tickets.
	Mode string `yaml:"mode" default:"structured" oneof:"structured,binary,batch"`
	// Match is an expression (CEL) that selects the events to send, over event (its
	// attributes, stream and action) and detection, audit or record. A missing field never
	// matches. A field that is not documented is written detection["new_field"]. Absent:
	// all events are sent.
	Match string `yaml:"match"`
	// OnError is what happens to an event for which match cannot be evaluated, for example
	// because its risk_score is a string: send sends it, drop drops it, and dead_letter
	// stores it as a dead letter, which is sent if it is requeued. Absent: dead_letter for
	// a sink with redact, because its match may keep confidential data from leaving; send
	// for any other.
	OnError string `yaml:"on_error" with:"match" oneof:"send,drop,dead_letter"`
	// Start is where a new sink begins: now, beginning (of the journal), a negative
	// duration or a time.
	Start Start     `yaml:"start" default:"now"`
	Batch Batch     `yaml:"batch"`
	Retry SendRetry `yaml:"retry"`
	Lag   Lag       `yaml:"lag"`
	// Probe is the wait between delivery attempts while the sink is halted.
	Probe  Duration `yaml:"probe" default:"30s" above:"0"`
	Poison Poison   `yaml:"poison"`
	// MaxAttempts is the number of failed attempts after which an event is dead-lettered,
	// whether others are delivered or not. 0: unlimited. Attempts that fail because the
	// destination or a part of it is not available do not count.
	MaxAttempts int `yaml:"max_attempts" default:"0" min:"0"`
	// RateLimit is the maximum number of events per second. 0: no limit.
	RateLimit float64 `yaml:"rate_limit" default:"0" min:"0"`
	// Redact lists fields of the events' data that are never sent to this sink: names
	// joined by dots, such as detection.participants.username. A field of the detection is
	// also redacted in changes, in events about tickets, and in what enrich adds. Attributes
	// of the event are not data and are not redacted; one of them is the severity, which is
	// derived from risk_score.
	Redact []string `yaml:"redact" form:"field"`

	notified bool // see Notified
}

// Notified reports whether Config.Notify lists the sink.
func (s Sink) Notified() bool { return s.notified }

// target is the block of a kind of sink: each kind is a field of Sink whose type is one.
type target interface {
	// modes returns the content modes that the kind supports.
	modes() []string
	// place and summary return what Sink.Target and Sink.Summary do.
	place() string
	summary() string
}

// kinds are the fields of Sink that have a target.
var kinds = slices.DeleteFunc(slices.Clone(fieldsOf(reflect.TypeFor[Sink]())), func(f field) bool { return !f.typ.Implements(reflect.TypeFor[target]()) })

// targets returns the blocks of all kinds that s has, with their keys; it should be one.
func (s Sink) targets() (keys []string, targets []target) {
	v := reflect.ValueOf(s)
	for _, f := range kinds {
		if block := v.FieldByIndex(f.index); !block.IsNil() {
			keys = append(keys, f.name)
			targets = append(targets, block.Interface().(target))
		}
	}
	return keys, targets
}

// Kind returns the key of the block that s has: kafka, nats, webhook, syslog or file, or
// "" if it has none.
func (s Sink) Kind() string {
	if keys, _ := s.targets(); len(keys) > 0 {
		return keys[0]
	}
	return ""
}

// Target returns where the sink delivers, for people: the hosts of its servers, each with its
// port if it has one, or the path of its file. It contains no secrets: of a URL, it has
// neither the user nor the path and the query.
func (s Sink) Target() string {
	if _, targets := s.targets(); len(targets) > 0 {
		return targets[0].place()
	}
	return ""
}

// Summary returns the kind of s, where it delivers and how, for people and without secrets. s
// must have a kind.
func (s Sink) Summary() string {
	_, targets := s.targets()
	return targets[0].summary()
}

// Preset returns what the sink is, if that is more than its Kind: the preset of its webhook
// or the ticket system in which it opens tickets. Otherwise it returns "".
func (s Sink) Preset() string {
	switch {
	case s.Webhook == nil:
		return ""
	case s.Webhook.Ticket != nil:
		return s.Webhook.Ticket.System
	}
	return s.Webhook.Preset
}

// Batch limits the batches that are sent to the sink.
type Batch struct {
	// MaxEvents is the maximum number of events in a batch.
	MaxEvents int `yaml:"max_events" default:"500" min:"1"`
	// MaxBytes is the maximum size of a batch; a larger event is sent alone. Events count
	// as CloudEvents, whatever their format.
	MaxBytes Size `yaml:"max_bytes" default:"1MiB" above:"0"`
	// Linger is how long a batch that is not full waits for more events.
	Linger Duration `yaml:"linger" default:"50ms" min:"0"`
}

// SendRetry configures the wait after temporary failures, which grows with each
// consecutive failure.
type SendRetry struct {
	// Initial is the wait after the first failure.
	Initial Duration `yaml:"initial" default:"500ms" above:"0"`
	// Max is the longest wait; at least [SendRetry.Initial].
	Max Duration `yaml:"max" default:"1m" above:"0"`
}

// Poison sets when an event is dead-lettered that fails while others are delivered. Until
// then it is parked: it is sent again now and then, and only later events of the same
// detection wait for it.
type Poison struct {
	// Attempts is the number of such failures.
	Attempts int `yaml:"attempts" default:"20" min:"1"`
	// After is the minimum time from the first of them to the last.
	After Duration `yaml:"after" default:"1h" min:"0"`
}

// Values of Lag.Policy.
const (
	LagBlock = "block"
	LagSkip  = "skip"
)

// Lag limits how far the sink may fall behind, and sets what happens if it falls further
// behind. If it is absent, the presets of chats skip events that are older than 6h or
// exceed a quarter of the journal.
type Lag struct {
	// MaxAge is the maximum age of the oldest undelivered event. 0: no limit.
	MaxAge Duration `yaml:"max_age" default:"0" min:"0"`
	// MaxBytes is the maximum size of all undelivered events; less than
	// [Journal.MaxBytes]. 0: no limit.
	MaxBytes Size `yaml:"max_bytes" default:"0"`
	// Policy is what happens when a limit is exceeded. block: undelivered events stay in
	// the journal and may eventually fill it, which pauses polling. skip, which requires
	// one of the limits: the oldest undelivered events are skipped and counted, and an
	// event reports how many.
	Policy string `yaml:"policy" default:"block" oneof:"block,skip"`
}

// IsBounded reports whether l sets a limit.
func (l Lag) IsBounded() bool { return l.MaxAge > 0 || l.MaxBytes > 0 }

// File configures delivery to a file with one document per line, or to standard output.
//
//	sinks:
//	  - name: archive
//	    file: {path: /var/lib/ndrbridge/events.jsonl, rotate: {max_bytes: 1GiB, keep: 10}}
type File struct {
	// Path is the path of the file, or - for standard output. No two sinks may share one.
	// In a cluster, each member writes a file of its own, while it is the owner.
	Path   string `yaml:"path" required:"true"`
	Rotate Rotate `yaml:"rotate"`
}

// Rotate configures rotation of the file. It has no effect on standard output.
type Rotate struct {
	// MaxBytes is the size at which the file is rotated. 0: never.
	MaxBytes Size `yaml:"max_bytes" default:"100MiB"`
	// Keep is the number of rotated files to keep.
	Keep int `yaml:"keep" default:"5" min:"1"`
}

func (f *File) modes() []string { return []string{"structured"} }

func (f *File) place() string {
	if f.Path == "-" {
		return "standard output"
	}
	return f.Path
}

func (f *File) summary() string {
	if f.Path == "-" {
		return "file, standard output"
	}
	return "file " + f.Path
}

// differentFiles checks that the file of each sink is written by that sink alone.
func (c checks) differentFiles(config *Config) {
	writers := map[string]string{absolute(config.State): ""}
	for i, s := range config.Sinks {
		if s.File == nil || s.File.Path == "" {
			continue
		}
		path, file := item("sinks", i), absolute(s.File.Path)
		switch writer, written := writers[file]; {
		case written && writer == "":
			c.wrong(path+".file.path", "is the state file; choose another path")
		case written:
			c.wrong(path+".file.path", "is also written by %s; choose another path", writer)
		default:
			writers[file] = path
		}
	}
}

func (r *SendRetry) check(c checks, path string) { c.retry(path, r.Initial, r.Max) }

func (s *Sink) check(c checks, path string) {
	keys, targets := s.targets()
	if s.Webhook != nil {
		c.webhook(path+".webhook", *s)
	}
	switch len(targets) {
	case 0:
		if slices.ContainsFunc(kinds, func(f field) bool { return c.failed(path + "." + f.name) }) {
			break // reported already
		}
		c.wrong(path, "has no destination; add one of %s", enumerate(keysIn(kinds), "and"))
	case 1:
		c.mode(path+".mode", *s, targets[0].modes())
		c.format(path, *s)
	default:
		c.wrong(path, "has %s; keep one, and add a separate sink for each of the others", strings.Join(keys, " and "))
	}
	if s.Match != "" {
		if _, err := match.Compile(s.Match); err != nil {
			c.wrong(path+".match", "%v", err)
		}
	}
}

func (c checks) mode(path string, s Sink, allowed []string) {
	switch {
	case !slices.Contains((&Webhook{}).modes(), s.Mode): // reported by the oneof tag
	case s.Webhook != nil && s.Webhook.Preset != "" && s.Mode != "structured":
		c.wrong(path, "%q is not supported with a preset, which uses the service's own protocol; leave it out", s.Mode)
	case !slices.Contains(allowed, s.Mode):
		c.wrong(path, "%q is not supported by %s, which supports %s", s.Mode, s.Kind(), strings.Join(allowed, ", "))
	}
}

func (l *Lag) check(c checks, path string) {
	journal := c.config.Journal.MaxBytes
	if l.MaxBytes >= journal && l.MaxBytes > 0 {
		c.wrong(path+".max_bytes", "is %s, which the journal cannot hold (journal.max_bytes: %s); write less", l.MaxBytes, journal)
	}
	if l.Policy == LagSkip && !l.IsBounded() && !c.failed(path+".max_age") && !c.failed(path+".max_bytes") {
		c.wrong(path+".policy", "is skip without a limit; set max_age, max_bytes or both, or policy to block")
	}
}
