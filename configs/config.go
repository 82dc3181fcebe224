// Package configs reads the configuration of the bridge: one YAML file, overridden by
// environment variables, into one set of structs.
//
// The yaml tag of a field is its key in the file. Its environment variable is
// NDRBRIDGE_ followed by the key's path in capitals, joined by underscores. A default
// tag holds the value of a key that is not set, and a oneof tag lists the permitted
// values; {presets} in it stands for the names of all presets. The min and max tags are
// inclusive bounds, and the above tag is an exclusive lower bound. A field whose required
// tag is true must not be empty. A field of type Secret stands for two keys: its own, and
// the same with the suffix _file.
//
// The configuration reference and the JSON Schema are generated from the doc comments
// of the structs and their fields, without the leading name. An indented block is an
// example, which must load. Paragraphs after the first are for readers of the code and
// are left out. Run make reference after changing a comment.
package configs

// Config is the whole configuration of the bridge: one file, overridden by environment
// variables.
//
// A Config returned by Load or Parse is valid. Printing it never shows a secret.
type Config struct {
	// State is the path of the state file, which holds stream positions, the journal, the
	// sinks' cursors and dead letters. It is created at the first start.
	State string `yaml:"state" env:"STATE" default:"./ndrbridge.db" required:"true"`
	Log   Log    `yaml:"log" envPrefix:"LOG_"`
	// ShutdownTimeout is how long batches in flight may take to complete when the bridge is
	// stopped. Deliveries that are still running then are abandoned, and the process exits
	// within a second. Their events are delivered again after the next start.
	ShutdownTimeout Duration    `yaml:"shutdown_timeout" env:"SHUTDOWN_TIMEOUT" default:"20s" above:"0"`
	Admin           Admin       `yaml:"admin" envPrefix:"ADMIN_"`
	Journal         Journal     `yaml:"journal" envPrefix:"JOURNAL_"`
	DeadLetters     DeadLetters `yaml:"dead_letters" envPrefix:"DEAD_LETTERS_"`
	Events          Events      `yaml:"events" envPrefix:"EVENTS_"`
	// Appliances are the appliances to poll, each independently of the others; at least
	// one.
	Appliances []Appliance `yaml:"appliances" envPrefix:"APPLIANCES_" required:"true"`
	// Sinks are the destinations of events, each independent of the others; at least one.
	Sinks   []Sink  `yaml:"sinks" envPrefix:"SINKS_" required:"true"`
	Tickets Tickets `yaml:"tickets" envPrefix:"TICKETS_"`
	Tracing Tracing `yaml:"tracing" envPrefix:"TRACING_"`
}

// Log sets the level and the format of the log, which is written to standard error.
//
//	log: {level: debug, format: json}
type Log struct {
	// Level is the lowest level that is logged.
	Level string `yaml:"level" env:"LEVEL" default:"info" oneof:"debug,info,warn,error"`
	// Format is the format of log lines: text, or json with one object per line.
	Format string `yaml:"format" env:"FORMAT" default:"text" oneof:"text,json"`
}

// Admin configures the HTTP server for health checks, metrics, the admin API and the
// status page.
//
//	admin:
//	  listen: 0.0.0.0:9600
//	  token_file: /run/secrets/ndrbridge-admin
type Admin struct {
	// Listen is the address to listen on, host:port. An address other than loopback
	// requires a token.
	Listen string `yaml:"listen" env:"LISTEN" default:"127.0.0.1:9600" required:"true"`
	// Token is the bearer token that every request must carry, except requests for
	// /healthz and /readyz. Absent: no token is required.
	Token Secret `yaml:"token" env:"TOKEN" envPrefix:"TOKEN_"`
}

// Journal limits the journal, which stores events between the appliances and the sinks.
//
//	journal: {max_bytes: 8GiB, retain: 7d}
type Journal struct {
	// MaxBytes is the maximum size of the journal. Polling pauses while it is full of
	// undelivered events.
	MaxBytes Size `yaml:"max_bytes" env:"MAX_BYTES" default:"2GiB" min:"16MiB"`
	// Retain is how long delivered events are kept for a replay, as far as
	// [Journal.MaxBytes] allows. 0: they are not kept.
	Retain Duration `yaml:"retain" env:"RETAIN" default:"24h" min:"0"`
}

// DeadLetters limits the dead letters: events that a target rejected permanently and
// objects that could not be converted into events, each stored with the reason.
//
//	dead_letters: {max_bytes: 1GiB}
type DeadLetters struct {
	// MaxBytes is the maximum total size of all dead letters, divided into equal shares:
	// one for each sink, and one for all sources together. A sink halts when its share is
	// full. Sources must not halt: when their share is full, their oldest dead letters are
	// dropped and counted. 0: no limit.
	MaxBytes Size `yaml:"max_bytes" env:"MAX_BYTES" default:"256MiB"`
}

// Events configures what all events have in common, and the heartbeat events of the
// bridge itself.
//
//	events: {type_prefix: com.example.ndr, heartbeat: 1m}
type Events struct {
	// TypePrefix is the prefix of every event's type: words of letters, digits, - and _,
	// separated by dots.
	TypePrefix string `yaml:"type_prefix" env:"TYPE_PREFIX" default:"io.ndrbridge"`
	// Heartbeat is the interval between heartbeat events, which show that the bridge is
	// running: at least 1s, or 0 for none.
	Heartbeat Duration `yaml:"heartbeat" env:"HEARTBEAT" default:"0" min:"0"`
}

// Appliance is an appliance to poll. Exactly one of [Appliance.APIKey] and
// [Appliance.OAuth] must be set, and at least one stream must be enabled.
//
//	appliances:
//	  - name: hq
//	    url: https://sensor.example
//	    api_key_file: /run/secrets/hq
type Appliance struct {
	// Name identifies the appliance in the source of events, in subjects and in metric
	// labels: 1 to 63 of a-z, 0-9 and -, and not "bridge". It must be unique.
	Name string `yaml:"name" env:"NAME" required:"true"`
	// URL is the appliance's address: http or https, a host and optionally a port, without
	// a path; /api/v1 is appended.
	URL string `yaml:"url" env:"URL" required:"true"`
	// APIKey is the API key that was created on the appliance.
	APIKey Secret `yaml:"api_key" env:"API_KEY" envPrefix:"API_KEY_"`
	OAuth  OAuth  `yaml:"oauth" envPrefix:"OAUTH_"`
	// Product is the product's name in the authorization scheme and in paths: letters,
	// digits, - and _.
	Product string `yaml:"product" env:"PRODUCT" default:"service" required:"true"`
	// SchemeWord is the product's name in the authorization scheme, if it differs from the
	// one in paths. Absent: [Appliance.Product].
	SchemeWord string `yaml:"scheme_word" env:"SCHEME_WORD"`
	// Timeout is how long one request may take, including reading the response.
	Timeout Duration `yaml:"timeout" env:"TIMEOUT" default:"30s" above:"0"`
	// RateLimit is the maximum number of requests per second, over all streams of the
	// appliance.
	RateLimit float64 `yaml:"rate_limit" env:"RATE_LIMIT" default:"5" above:"0"`
	TLS       TLS     `yaml:"tls" envPrefix:"TLS_"`
	// Proxy is the URL of a proxy: http, https or socks5. Absent: the environment variables
	// HTTPS_PROXY and NO_PROXY apply.
	Proxy URL       `yaml:"proxy" env:"PROXY"`
	Retry PollRetry `yaml:"retry" envPrefix:"RETRY_"`
	// AuthRetry is how long to wait before the next request after the appliance rejected
	// the credentials.
	AuthRetry Duration `yaml:"auth_retry" env:"AUTH_RETRY" default:"30s" above:"0"`
	// UnreachableAfter is the number of consecutive failed polls after which an event
	// reports that the appliance is unreachable.
	UnreachableAfter int        `yaml:"unreachable_after" env:"UNREACHABLE_AFTER" default:"3" min:"1"`
	Detections       Detections `yaml:"detections" envPrefix:"DETECTIONS_"`
	Audit            Audit      `yaml:"audit" envPrefix:"AUDIT_"`
	// Records are the record queries, each a stream of its own. Absent: no records are
	// read.
	Records []RecordQuery `yaml:"records" envPrefix:"RECORDS_"`
}

// OAuth configures OAuth 2.0 client credentials, which the cloud edition uses. Either all
// of its keys are set, or none.
//
//	appliances:
//	  - name: cloud
//	    url: https://tenant.example
//	    oauth: {token_url: "https://tenant.example/oauth2/token", client_id: an-id, client_secret_file: /run/secrets/cloud}
type OAuth struct {
	// TokenURL is the URL of the token endpoint: http or https.
	TokenURL URL `yaml:"token_url" env:"TOKEN_URL"`
	// ClientID is the client id.
	ClientID string `yaml:"client_id" env:"CLIENT_ID"`
	// ClientSecret is the client secret.
	ClientSecret Secret `yaml:"client_secret" env:"CLIENT_SECRET" envPrefix:"CLIENT_SECRET_"`
}

// IsSet reports whether any field of o is set.
func (o OAuth) IsSet() bool { return o != OAuth{} }

// TLS configures how the server's certificate is verified, and the client certificate.
// By default, the system's certificate authorities are trusted and no client certificate
// is sent.
type TLS struct {
	// CAFile is the path of a PEM file with the certificate authorities to trust instead
	// of the system's.
	CAFile string `yaml:"ca_file" env:"CA_FILE"`
	// CertFile is the path of a PEM file with a client certificate; it requires
	// [TLS.KeyFile].
	CertFile string `yaml:"cert_file" env:"CERT_FILE"`
	// KeyFile is the path of a PEM file with the private key of [TLS.CertFile].
	KeyFile string `yaml:"key_file" env:"KEY_FILE"`
	// ServerName is the name that the server's certificate must have. Absent: the host
	// in the address.
	ServerName string `yaml:"server_name" env:"SERVER_NAME"`
	// InsecureSkipVerify accepts any server certificate. Use it for tests only.
	InsecureSkipVerify bool `yaml:"insecure_skip_verify" env:"INSECURE_SKIP_VERIFY"`
}

// PollRetry configures the wait after failed polls, which grows with each consecutive
// failure.
type PollRetry struct {
	// Initial is the wait after the first failure.
	Initial Duration `yaml:"initial" env:"INITIAL" default:"1s" above:"0"`
	// Max is the longest wait; at least [PollRetry.Initial].
	Max Duration `yaml:"max" env:"MAX" default:"1m" above:"0"`
}

// Detections configures the stream of detections.
//
//	appliances:
//	  - name: hq
//	    url: https://sensor.example
//	    api_key_file: /run/secrets/hq
//	    detections: {start: -7d, enrich: [devices, format, link]}
type Detections struct {
	// Enabled turns the stream on.
	Enabled bool `yaml:"enabled" env:"ENABLED" default:"true"`
	// Interval is the wait between polls when there is nothing new.
	Interval Duration `yaml:"interval" env:"INTERVAL" default:"10s" above:"0"`
	// Start is where the first poll begins: now, beginning, a negative duration or a
	// time. Later polls continue from the saved position.
	Start Start `yaml:"start" env:"START" default:"now"`
	// Overlap is how late a version may become visible and still be found without waiting
	// for the reconcile sweep. The range of this length before the position is read
	// again: at every poll if it fits on one page, otherwise once per quarter of its
	// length.
	Overlap Duration `yaml:"overlap" env:"OVERLAP" default:"2m" min:"0"`
	// PageSize is the number of detections per request.
	PageSize int             `yaml:"page_size" env:"PAGE_SIZE" default:"1000" min:"2" max:"20000"`
	Filter   DetectionFilter `yaml:"filter" envPrefix:"FILTER_"`
	// Enrich lists what is added to the events of detections, each at most once: devices
	// (the participants' devices), format (the display name of the type), link (the URL
	// of the detection's page on the appliance).
	Enrich    []string  `yaml:"enrich" env:"ENRICH" oneof:"devices,format,link"`
	Reconcile Reconcile `yaml:"reconcile" envPrefix:"RECONCILE_"`
	// ForgetAfter is how long the state of a detection is kept after its last change. It
	// must be longer than [Detections.Overlap] and [Reconcile.Back].
	ForgetAfter Duration `yaml:"forget_after" env:"FORGET_AFTER" default:"90d"`
}

// DetectionFilter is the appliance's own search filter: detections that do not match are
// never fetched. A key that is absent does not filter.
//
// Its JSON is the filter object of the appliance's REST interface.
//
//	appliances:
//	  - name: hq
//	    url: https://sensor.example
//	    api_key_file: /run/secrets/hq
//	    detections:
//	      filter: {categories: [sec], status: [new, in_progress, .none], risk_score_min: 60}
type DetectionFilter struct {
	// Categories are the categories to select: sec, perf or custom, or a part of one,
	// such as sec.botnet.
	Categories []string `yaml:"categories" env:"CATEGORIES" json:"categories,omitempty"`
	// Category is the older form of [DetectionFilter.Categories], for old appliances.
	Category string `yaml:"category" env:"CATEGORY" json:"category,omitempty"`
	// Assignee lists user names, .none (unassigned) or .me (the owner of the API key).
	Assignee []string `yaml:"assignee" env:"ASSIGNEE" json:"assignee,omitempty"`
	// TicketID lists ticket ids, or .none (no ticket).
	TicketID []string `yaml:"ticket_id" env:"TICKET_ID" json:"ticket_id,omitempty"`
	// Status lists statuses, or .none (no status).
	Status []string `yaml:"status" env:"STATUS" json:"status,omitempty" oneof:"new,in_progress,closed,acknowledged,.none"`
	// Resolution lists resolutions, or .none (no resolution).
	Resolution []string `yaml:"resolution" env:"RESOLUTION" json:"resolution,omitempty" oneof:"action_taken,no_action_taken,.none"`
	// Types are the detection types to select.
	Types []string `yaml:"types" env:"TYPES" json:"types,omitempty"`
	// RiskScoreMin is the minimum risk score.
	RiskScoreMin *int `yaml:"risk_score_min" env:"RISK_SCORE_MIN" json:"risk_score_min,omitempty" min:"0" max:"100"`
	// Recommended selects the detections that the appliance recommends for triage (true)
	// or the others (false). Only a console supports it.
	Recommended *bool `yaml:"recommended" env:"RECOMMENDED" json:"recommended,omitempty"`
}

// Reconcile configures the slow sweep that finds detections that became visible late.
type Reconcile struct {
	// Every is the time between sweeps. 0: no sweeps.
	Every Duration `yaml:"every" env:"EVERY" default:"6h" min:"0"`
	// Back is how far back a sweep reads.
	Back Duration `yaml:"back" env:"BACK" default:"72h" above:"0"`
}

// Audit configures the stream of audit log entries: what people and tools did on the
// appliance.
//
//	appliances:
//	  - name: hq
//	    url: https://sensor.example
//	    api_key_file: /run/secrets/hq
//	    audit: {start: beginning}
type Audit struct {
	// Enabled turns the stream on.
	Enabled bool `yaml:"enabled" env:"ENABLED" default:"true"`
	// Interval is the wait between polls.
	Interval Duration `yaml:"interval" env:"INTERVAL" default:"30s" above:"0"`
	// Start is where the first poll begins, as for detections.
	Start Start `yaml:"start" env:"START" default:"now"`
	// PageSize is the number of entries per request.
	PageSize int `yaml:"page_size" env:"PAGE_SIZE" default:"500" min:"2" max:"10000"`
}

// RecordQuery configures a stream of records.
//
//	appliances:
//	  - name: hq
//	    url: https://sensor.example
//	    api_key_file: /run/secrets/hq
//	    records:
//	      - {name: dns, types: ["~dns"], start: -1d}
//	      - {name: errors, types: ["~http"], filter: {field: statusCode, operator: ">=", operand: 500}}
type RecordQuery struct {
	// Name identifies the query in the source of events, in metric labels and in commands:
	// 1 to 63 of a-z, 0-9 and -. It must be unique within the appliance.
	Name string `yaml:"name" env:"NAME" required:"true"`
	// Types are record types such as ~dns. Absent: all types.
	Types []string `yaml:"types" env:"TYPES"`
	// Filter is a filter of the appliance's REST interface: field (which may be .any,
	// .ipaddr or .port), operator and operand, where the operand is a value or {type,
	// value}; or the operator and, or, or not with rules, a list of filters. {}: no
	// filter.
	Filter RecordFilter `yaml:"filter" env:"FILTER"`
	// Interval is the wait between polls when there is nothing to read.
	Interval Duration `yaml:"interval" env:"INTERVAL" default:"30s" above:"0"`
	// Start is where the first poll begins, as for detections.
	Start Start `yaml:"start" env:"START" default:"now"`
	// Window is the length of the time range of one search near the present.
	Window Duration `yaml:"window" env:"WINDOW" default:"1m" min:"1ms"`
	// Delay is how long to wait for records that are stored late: a time range is read
	// when it is this old.
	Delay Duration `yaml:"delay" env:"DELAY" default:"30s" min:"0"`
	// PageSize is the number of records per request.
	PageSize int `yaml:"page_size" env:"PAGE_SIZE" default:"1000" min:"2" max:"10000"`
	// Store is where the appliance keeps its records, which decides whether it supports
	// cursors: own is the product's record store, third_party is another one, and auto
	// detects which.
	Store string `yaml:"store" env:"STORE" default:"auto" oneof:"auto,own,third_party"`
	// Recheck is the age at which a time range is read a second time, to find records that
	// were stored later than [RecordQuery.Delay]. It must be longer than that. 0: never.
	Recheck Duration `yaml:"recheck" env:"RECHECK" default:"10m" min:"0"`
	// MaxWindowRecords is the maximum number of records in one search; a time range with
	// more is divided. At least [RecordQuery.PageSize].
	MaxWindowRecords int `yaml:"max_window_records" env:"MAX_WINDOW_RECORDS" default:"10000"`
	// ContextTTL is how long the appliance keeps an unused cursor.
	ContextTTL Duration `yaml:"context_ttl" env:"CONTEXT_TTL" default:"1m" min:"1ms"`
}

// Sink is a destination of events. Exactly one of [Sink.Kafka], [Sink.NATS],
// [Sink.Webhook] and [Sink.File] must be present.
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
	Name    string   `yaml:"name" env:"NAME" required:"true"`
	Kafka   *Kafka   `yaml:"kafka" envPrefix:"KAFKA_"`
	NATS    *NATS    `yaml:"nats" envPrefix:"NATS_"`
	Webhook *Webhook `yaml:"webhook" envPrefix:"WEBHOOK_"`
	File    *File    `yaml:"file" envPrefix:"FILE_"`
	// Mode is the content mode of CloudEvents: structured; binary, except for files; or
	// batch, for webhooks only. Leave it out with a preset, a template or tickets.
	Mode string `yaml:"mode" env:"MODE" default:"structured" oneof:"structured,binary,batch"`
	// Match is an expression (CEL) that selects the events to send, over event (its
	// attributes, stream and action) and detection, audit or record. A missing field never
	// matches. Absent: all events are sent.
	Match string `yaml:"match" env:"MATCH"`
	// OnError is what happens to an event for which match cannot be evaluated, for example
	// because its risk_score is a string: send sends it, drop drops it, and dead_letter
	// stores it as a dead letter, which is sent if it is requeued. Absent: dead_letter for
	// a sink with redact, because its match may keep confidential data from leaving; send
	// for any other.
	OnError string `yaml:"on_error" env:"ON_ERROR" oneof:"send,drop,dead_letter"`
	// Start is where a new sink begins: now, beginning (of the journal), a negative
	// duration or a time.
	Start Start     `yaml:"start" env:"START" default:"now"`
	Batch Batch     `yaml:"batch" envPrefix:"BATCH_"`
	Retry SendRetry `yaml:"retry" envPrefix:"RETRY_"`
	Lag   Lag       `yaml:"lag" envPrefix:"LAG_"`
	// Probe is the wait between delivery attempts while the sink is halted.
	Probe Duration `yaml:"probe" env:"PROBE" default:"30s" above:"0"`
	// IsolateAfter is the number of consecutive failed attempts after which a batch is sent
	// in parts, to find an event that keeps failing while others are delivered.
	IsolateAfter int `yaml:"isolate_after" env:"ISOLATE_AFTER" default:"5" min:"1"`
	// MaxAttempts is the number of temporary failures after which an event is dead-lettered.
	// 0: unlimited. An event that keeps failing while others are delivered is
	// dead-lettered regardless.
	MaxAttempts int `yaml:"max_attempts" env:"MAX_ATTEMPTS" default:"0" min:"0"`
	// RateLimit is the maximum number of events per second. 0: no limit.
	RateLimit float64 `yaml:"rate_limit" env:"RATE_LIMIT" default:"0" min:"0"`
	// Redact lists fields of the events' data that are never sent to this sink: names
	// joined by dots, such as detection.participants.username. A field of the detection is
	// also redacted in changes. Attributes of the event are not data and are not redacted;
	// one of them is the severity, which is derived from risk_score.
	Redact []string `yaml:"redact" env:"REDACT"`
}

// Kind returns the key of the block that s has: kafka, nats, webhook or file, or "" if
// it has none.
func (s Sink) Kind() string {
	switch {
	case s.Kafka != nil:
		return "kafka"
	case s.NATS != nil:
		return "nats"
	case s.Webhook != nil:
		return "webhook"
	case s.File != nil:
		return "file"
	}
	return ""
}

// Batch limits the batches that are sent to the sink.
type Batch struct {
	// MaxEvents is the maximum number of events in a batch.
	MaxEvents int `yaml:"max_events" env:"MAX_EVENTS" default:"500" min:"1"`
	// MaxBytes is the maximum size of a batch; a larger event is sent alone.
	MaxBytes Size `yaml:"max_bytes" env:"MAX_BYTES" default:"1MiB" above:"0"`
	// Linger is how long a batch that is not full waits for more events.
	Linger Duration `yaml:"linger" env:"LINGER" default:"50ms" min:"0"`
}

// SendRetry configures the wait after temporary failures, which grows with each
// consecutive failure.
type SendRetry struct {
	// Initial is the wait after the first failure.
	Initial Duration `yaml:"initial" env:"INITIAL" default:"500ms" above:"0"`
	// Max is the longest wait; at least [SendRetry.Initial].
	Max Duration `yaml:"max" env:"MAX" default:"1m" above:"0"`
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
	MaxAge Duration `yaml:"max_age" env:"MAX_AGE" default:"0" min:"0"`
	// MaxBytes is the maximum size of all undelivered events; less than
	// [Journal.MaxBytes]. 0: no limit.
	MaxBytes Size `yaml:"max_bytes" env:"MAX_BYTES" default:"0"`
	// Policy is what happens when a limit is exceeded. block: undelivered events stay in
	// the journal and may eventually fill it, which pauses polling. skip, which requires
	// one of the limits: the oldest undelivered events are skipped and counted, and an
	// event reports how many.
	Policy string `yaml:"policy" env:"POLICY" default:"block" oneof:"block,skip"`
}

// IsBounded reports whether l sets a limit.
func (l Lag) IsBounded() bool { return l.MaxAge > 0 || l.MaxBytes > 0 }

// Kafka configures delivery to Kafka, to one topic or to several chosen by a template.
//
//	sinks:
//	  - name: lake
//	    kafka:
//	      brokers: ["kafka-1.example:9093", "kafka-2.example:9093"]
//	      topic: ndr.{stream}
//	      tls: {}
//	      sasl: {mechanism: scram-sha-512, username: ndrbridge, password_file: /run/secrets/kafka}
type Kafka struct {
	// Brokers are the addresses, host:port, of one or more brokers of the cluster.
	Brokers []string `yaml:"brokers" env:"BROKERS" required:"true"`
	// Topic is the topic; it may contain {stream}, {appliance} and {action}.
	Topic string `yaml:"topic" env:"TOPIC" default:"ndr.{stream}" required:"true"`
	// Acks is which brokers must have stored an event before it counts as delivered: all
	// in-sync replicas, or one, the leader.
	Acks string `yaml:"acks" env:"ACKS" default:"all" oneof:"all,one"`
	// Compression is the compression of batches.
	Compression string `yaml:"compression" env:"COMPRESSION" default:"zstd" oneof:"none,gzip,snappy,lz4,zstd"`
	// TLS enables TLS. Absent: connections are not encrypted.
	TLS  *TLS `yaml:"tls" envPrefix:"TLS_"`
	SASL SASL `yaml:"sasl" envPrefix:"SASL_"`
	// MaxMessageBytes is the maximum compressed size of a batch, and so of an event.
	MaxMessageBytes Size `yaml:"max_message_bytes" env:"MAX_MESSAGE_BYTES" default:"1MiB" above:"0"`
	// ClientID is the client id that the brokers use in logs and quotas.
	ClientID string `yaml:"client_id" env:"CLIENT_ID" default:"ndrbridge"`
	// CreateTopic creates a missing topic. Absent: topics must exist.
	CreateTopic *NewTopic `yaml:"create_topic" envPrefix:"CREATE_TOPIC_"`
}

// NewTopic configures the topics that the bridge creates.
type NewTopic struct {
	// Partitions is the number of partitions. 0: the brokers' default.
	Partitions int `yaml:"partitions" env:"PARTITIONS" default:"0" min:"0" max:"2147483647"`
	// Replication is the replication factor. 0: the brokers' default.
	Replication int `yaml:"replication" env:"REPLICATION" default:"0" min:"0" max:"32767"`
}

// SASL configures authentication to the brokers. Either all of its keys are set, or none.
type SASL struct {
	// Mechanism is the SASL mechanism. Absent: the bridge does not authenticate.
	Mechanism string `yaml:"mechanism" env:"MECHANISM" oneof:"plain,scram-sha-256,scram-sha-512"`
	// Username is the user name.
	Username string `yaml:"username" env:"USERNAME"`
	// Password is the password.
	Password Secret `yaml:"password" env:"PASSWORD" envPrefix:"PASSWORD_"`
}

// NATS configures delivery to a JetStream stream, or to core NATS. At most one form of
// authentication may be set: [NATS.CredsFile], [NATS.NKeyFile], [NATS.Token], or
// [NATS.Username] with [NATS.Password].
//
//	sinks:
//	  - name: bus
//	    nats: {url: "nats://127.0.0.1:4222", stream: NDR, create_stream: true}
type NATS struct {
	// URL is the URL of a server, or of several, separated by commas: nats, tls, ws or wss.
	URL URL `yaml:"url" env:"URL" required:"true"`
	// Stream is the JetStream stream. Absent: core NATS, which acknowledges nothing.
	Stream string `yaml:"stream" env:"STREAM"`
	// Subject is the subject; it may contain {stream}, {appliance} and {action}.
	Subject string `yaml:"subject" env:"SUBJECT" default:"ndr.{appliance}.{stream}.{action}" required:"true"`
	// CreateStream creates the stream if it is missing.
	CreateStream bool `yaml:"create_stream" env:"CREATE_STREAM"`
	// CredsFile is the path of a credentials file, which holds a JWT and its seed.
	CredsFile string `yaml:"creds_file" env:"CREDS_FILE"`
	// NKeyFile is the path of a file with the seed of an NKey.
	NKeyFile string `yaml:"nkey_file" env:"NKEY_FILE"`
	// Token is the authentication token.
	Token Secret `yaml:"token" env:"TOKEN" envPrefix:"TOKEN_"`
	// Username is the user name.
	Username string `yaml:"username" env:"USERNAME"`
	// Password is the password.
	Password Secret `yaml:"password" env:"PASSWORD" envPrefix:"PASSWORD_"`
	// TLS enables TLS. Absent: the scheme of [NATS.URL] decides.
	TLS *TLS `yaml:"tls" envPrefix:"TLS_"`
	// MaxPending is the maximum number of unacknowledged messages.
	MaxPending int `yaml:"max_pending" env:"MAX_PENDING" default:"4000" min:"1"`
}

// Webhook configures delivery to an HTTP endpoint, or to a service for which there is a
// preset.
//
//	sinks:
//	  - name: soc
//	    webhook: {url: "https://collector.example/events", auth: {bearer_file: /run/secrets/soc}, gzip: true}
//	    mode: batch
//	  - name: chat
//	    webhook: {preset: slack, url: "https://hooks.slack.example/services/a-hook"}
//	    match: detection.risk_score >= 80
type Webhook struct {
	// URL is the URL to send requests to: http or https. It is required, unless the preset
	// has a default.
	URL URL `yaml:"url" env:"URL"`
	// Preset is the service whose own format is sent instead of CloudEvents. It determines
	// which of the keys from [Webhook.Key] to [Webhook.Tags] may be set, and the defaults
	// of other keys of the sink.
	Preset string `yaml:"preset" env:"PRESET" oneof:"{presets}"`
	// Key is the secret of a preset, in addition to secrets in its URL.
	Key Secret `yaml:"key" env:"KEY" envPrefix:"KEY_"`
	// Channel is the channel in which the slack bot posts; it requires [Webhook.Key].
	Channel string `yaml:"channel" env:"CHANNEL"`
	// Updates is what the slack bot does with later versions of a detection. edit: it edits
	// its message to show the latest version. thread: it replies to its message. post: it
	// posts a new message. Absent: edit.
	Updates string `yaml:"updates" env:"UPDATES" oneof:"edit,thread,post"`
	// Index is the index for splunk_hec. Absent: the default index of the token.
	Index string `yaml:"index" env:"INDEX"`
	// SourceType is the source type for splunk_hec. Absent: ndrbridge:<stream>.
	SourceType string `yaml:"source_type" env:"SOURCE_TYPE"`
	// Service is the service of the logs for datadog. Absent: ndrbridge.
	Service string `yaml:"service" env:"SERVICE"`
	// Tags are additional tags of the logs for datadog, such as env:prod.
	Tags []string `yaml:"tags" env:"TAGS"`
	// Method is the HTTP method. Presets and ticket systems support POST only.
	Method string `yaml:"method" env:"METHOD" default:"POST" oneof:"POST,PUT,PATCH"`
	// Headers are HTTP headers to send with every request. Put keys and tokens under auth
	// if the receiver accepts them there.
	Headers Headers     `yaml:"headers" env:"HEADERS"`
	Auth    WebhookAuth `yaml:"auth" envPrefix:"AUTH_"`
	// Timeout is how long one request may take, including reading the response and, with
	// splunk_hec, waiting until the events are indexed.
	Timeout Duration `yaml:"timeout" env:"TIMEOUT" default:"30s" above:"0"`
	TLS     TLS      `yaml:"tls" envPrefix:"TLS_"`
	// Proxy is the URL of a proxy: http, https or socks5. Absent: the environment variables
	// HTTPS_PROXY and NO_PROXY apply.
	Proxy URL `yaml:"proxy" env:"PROXY"`
	// Concurrency is the maximum number of requests in flight. Events with the same
	// partition key stay in order. [Batch.MaxEvents] should be at least 20 times as large.
	Concurrency int `yaml:"concurrency" env:"CONCURRENCY" default:"1" min:"1"`
	// Gzip compresses bodies of 1 KiB or more.
	Gzip bool `yaml:"gzip" env:"GZIP"`
	// MaxBodyBytes is the maximum size of a request body before compression. An event that
	// needs a larger body is dead-lettered.
	MaxBodyBytes Size `yaml:"max_body_bytes" env:"MAX_BODY_BYTES" default:"10MiB" above:"0"`
	// Template renders the body for each event, instead of CloudEvents. It is a Go
	// text/template over .event (its attributes, stream and action) and .detection, .audit
	// or .record, with the additional functions json, markdownEscape, truncate, default,
	// upper, lower, join and int. A missing field is empty. The body must be JSON, unless
	// [Webhook.Headers] sets another Content-Type.
	Template string `yaml:"template" env:"TEMPLATE"`
	// TemplateFile is the path of a file with the template, instead of [Webhook.Template].
	TemplateFile string      `yaml:"template_file" env:"TEMPLATE_FILE"`
	Sign         WebhookSign `yaml:"sign" envPrefix:"SIGN_"`
	// Ticket opens tickets. Absent: no tickets are opened.
	Ticket *WebhookTicket `yaml:"ticket" envPrefix:"TICKET_"`
	// Handshake asks the receiver for permission and for a rate limit before the first
	// event. Absent: the receiver is not asked.
	Handshake *WebhookHandshake `yaml:"handshake" envPrefix:"HANDSHAKE_"`
	// AllowLinkLocal permits connections to link-local addresses and to the metadata
	// services of clouds, which hold credentials, such as 169.254.169.254. With a proxy,
	// the address of the proxy is checked.
	AllowLinkLocal bool `yaml:"allow_link_local" env:"ALLOW_LINK_LOCAL"`
}

// WebhookAuth configures the Authorization header: either a bearer token, or a user name
// and a password, or neither.
type WebhookAuth struct {
	// Bearer is a bearer token.
	Bearer Secret `yaml:"bearer" env:"BEARER" envPrefix:"BEARER_"`
	// Username is the user name for basic authentication.
	Username string `yaml:"username" env:"USERNAME"`
	// Password is the password for basic authentication.
	Password Secret `yaml:"password" env:"PASSWORD" envPrefix:"PASSWORD_"`
}

// File configures delivery to a file with one event per line, or to standard output.
//
//	sinks:
//	  - name: archive
//	    file: {path: /var/lib/ndrbridge/events.jsonl, rotate: {max_bytes: 1GiB, keep: 10}}
type File struct {
	// Path is the path of the file, or - for standard output. No two sinks may share one.
	Path   string `yaml:"path" env:"PATH" required:"true"`
	Rotate Rotate `yaml:"rotate" envPrefix:"ROTATE_"`
}

// Rotate configures rotation of the file. It has no effect on standard output.
type Rotate struct {
	// MaxBytes is the size at which the file is rotated. 0: never.
	MaxBytes Size `yaml:"max_bytes" env:"MAX_BYTES" default:"100MiB"`
	// Keep is the number of rotated files to keep.
	Keep int `yaml:"keep" env:"KEEP" default:"5" min:"1"`
}
