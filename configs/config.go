// Package configs reads the configuration of the bridge: one YAML file and the
// environment over it, both onto one set of structs.
//
// A key of the file is the yaml tag of a field; its variable is the path of the
// key in capitals, joined by _, behind NDRBRIDGE_. A default tag holds the value
// of a key that nobody set, a oneof tag the only values that it may have; min and
// max tags bound it, both included, an above tag from below, itself excluded; one
// whose required tag is true may not be empty. A field of type Secret stands for two
// keys: its own, and the same with _file.
//
// The doc comments of fields, and those of the structs, are what the configuration
// reference and the JSON Schema tell users of a key, less the name in front; what is
// indented in one is an example that loads; what follows a blank line is for readers of
// the code. make reference makes both again.
package configs

// Config is the whole configuration of the bridge: one file, and the environment over
// it.
//
// One that Load or Parse returned is valid. No way of printing it shows a secret.
type Config struct {
	// State is the path of the state file, which holds positions, the journal, the
	// sinks' cursors and dead letters. It is made at the first start.
	State string `yaml:"state" env:"STATE" default:"./ndrbridge.db" required:"true"`
	Log   Log    `yaml:"log" envPrefix:"LOG_"`
	// ShutdownTimeout is how long batches in flight may take to end when the bridge is
	// stopped. What has not ended then is abandoned, and the process ends within a second.
	ShutdownTimeout Duration    `yaml:"shutdown_timeout" env:"SHUTDOWN_TIMEOUT" default:"20s" above:"0"`
	Admin           Admin       `yaml:"admin" envPrefix:"ADMIN_"`
	Journal         Journal     `yaml:"journal" envPrefix:"JOURNAL_"`
	DeadLetters     DeadLetters `yaml:"dead_letters" envPrefix:"DEAD_LETTERS_"`
	Events          Events      `yaml:"events" envPrefix:"EVENTS_"`
	// Appliances are the appliances that are polled, each on its own; at least one.
	Appliances []Appliance `yaml:"appliances" envPrefix:"APPLIANCES_" required:"true"`
	// Sinks are where events go, each at its own pace; at least one.
	Sinks   []Sink  `yaml:"sinks" envPrefix:"SINKS_" required:"true"`
	Tickets Tickets `yaml:"tickets" envPrefix:"TICKETS_"`
	Tracing Tracing `yaml:"tracing" envPrefix:"TRACING_"`
}

// Log says what is logged, on standard error, and how.
//
//	log: {level: debug, format: json}
type Log struct {
	// Level is the least level that is logged.
	Level string `yaml:"level" env:"LEVEL" default:"info" oneof:"debug,info,warn,error"`
	// Format is text, for people, or json, an object a line.
	Format string `yaml:"format" env:"FORMAT" default:"text" oneof:"text,json"`
}

// Admin is where health, metrics, the admin API and the status page are served.
//
//	admin:
//	  listen: 0.0.0.0:9600
//	  token_file: /run/secrets/ndrbridge-admin
type Admin struct {
	// Listen is the address, host:port. Beyond loopback it needs a token.
	Listen string `yaml:"listen" env:"LISTEN" default:"127.0.0.1:9600" required:"true"`
	// Token is the bearer token that requests must carry, all but those for /healthz and
	// /readyz. Absent: none.
	Token Secret `yaml:"token" env:"TOKEN" envPrefix:"TOKEN_"`
}

// Journal bounds the events that are kept between the appliances and the sinks.
//
//	journal: {max_bytes: 8GiB, retain: 7d}
type Journal struct {
	// MaxBytes is how large the journal may become. Polling pauses while events that are
	// yet to be delivered fill it.
	MaxBytes Size `yaml:"max_bytes" env:"MAX_BYTES" default:"2GiB" min:"16MiB"`
	// Retain is how long delivered events are kept for a replay, while there is space.
	// 0: not at all.
	Retain Duration `yaml:"retain" env:"RETAIN" default:"24h" min:"0"`
}

// DeadLetters bounds what the targets refused for good and what the sources could not
// make into events, which is kept with the reason.
//
//	dead_letters: {max_bytes: 1GiB}
type DeadLetters struct {
	// MaxBytes is how large all dead letters may become, in equal shares: one for each
	// sink, and one for all sources. A sink that has used up its share halts; of the
	// sources, which must not halt, the oldest give way and are counted. 0: no bound.
	MaxBytes Size `yaml:"max_bytes" env:"MAX_BYTES" default:"256MiB"`
}

// Events says what all events have in common, and which the bridge sends of its
// own accord.
//
//	events: {type_prefix: com.example.ndr, heartbeat: 1m}
type Events struct {
	// TypePrefix is the beginning of every event's type: words of letters, digits, - and
	// _ with dots between them.
	TypePrefix string `yaml:"type_prefix" env:"TYPE_PREFIX" default:"io.ndrbridge"`
	// Heartbeat is the time between two events that tell that the bridge lives: at
	// least 1s, or 0 for none.
	Heartbeat Duration `yaml:"heartbeat" env:"HEARTBEAT" default:"0" min:"0"`
}

// Appliance is one appliance that is polled. Exactly one of [Appliance.APIKey] and
// [Appliance.OAuth] is set, and at least one stream is enabled.
//
//	appliances:
//	  - name: hq
//	    url: https://sensor.example
//	    api_key_file: /run/secrets/hq
type Appliance struct {
	// Name is part of the source of events, of subjects and labels: 1 to 63 of a-z, 0-9
	// and -, never "bridge". Each appliance has its own.
	Name string `yaml:"name" env:"NAME" required:"true"`
	// URL is the appliance's address: http or https, a host, perhaps a port, and nothing
	// behind it; /api/v1 is added.
	URL string `yaml:"url" env:"URL" required:"true"`
	// APIKey is the API key that the appliance gave out.
	APIKey Secret `yaml:"api_key" env:"API_KEY" envPrefix:"API_KEY_"`
	OAuth  OAuth  `yaml:"oauth" envPrefix:"OAUTH_"`
	// Product is the product's word in the authorization scheme and in paths: letters,
	// digits, - and _.
	Product string `yaml:"product" env:"PRODUCT" default:"service" required:"true"`
	// SchemeWord is the word in the authorization scheme alone, where it differs. Absent:
	// [Appliance.Product].
	SchemeWord string `yaml:"scheme_word" env:"SCHEME_WORD"`
	// Timeout is how long one request may take, its answer read.
	Timeout Duration `yaml:"timeout" env:"TIMEOUT" default:"30s" above:"0"`
	// RateLimit is how many requests a second are made at most, by all streams together.
	RateLimit float64 `yaml:"rate_limit" env:"RATE_LIMIT" default:"5" above:"0"`
	TLS       TLS     `yaml:"tls" envPrefix:"TLS_"`
	// Proxy is the URL of a proxy: http, https or socks5. Absent: what HTTPS_PROXY and
	// NO_PROXY say.
	Proxy URL       `yaml:"proxy" env:"PROXY"`
	Retry PollRetry `yaml:"retry" envPrefix:"RETRY_"`
	// AuthRetry is the wait after the appliance refused the key.
	AuthRetry Duration `yaml:"auth_retry" env:"AUTH_RETRY" default:"30s" above:"0"`
	// UnreachableAfter is how many polls in a row must fail before an event tells that
	// the appliance is unreachable.
	UnreachableAfter int        `yaml:"unreachable_after" env:"UNREACHABLE_AFTER" default:"3" min:"1"`
	Detections       Detections `yaml:"detections" envPrefix:"DETECTIONS_"`
	Audit            Audit      `yaml:"audit" envPrefix:"AUDIT_"`
	// Records are the queries for records; none without this key.
	Records []RecordQuery `yaml:"records" envPrefix:"RECORDS_"`
}

// OAuth is the client credentials grant, for the cloud edition; all of it is set, or
// nothing.
//
//	appliances:
//	  - name: cloud
//	    url: https://tenant.example
//	    oauth: {token_url: "https://tenant.example/oauth2/token", client_id: an-id, client_secret_file: /run/secrets/cloud}
type OAuth struct {
	// TokenURL is where tokens are fetched: http or https.
	TokenURL URL `yaml:"token_url" env:"TOKEN_URL"`
	// ClientID is the client's name there.
	ClientID string `yaml:"client_id" env:"CLIENT_ID"`
	// ClientSecret is the client's secret.
	ClientSecret Secret `yaml:"client_secret" env:"CLIENT_SECRET" envPrefix:"CLIENT_SECRET_"`
}

// IsSet reports whether anything of o was configured.
func (o OAuth) IsSet() bool { return o != OAuth{} }

// TLS is how a server is checked and what is shown to it. What is absent trusts the
// system's authorities and shows nothing.
type TLS struct {
	// CAFile is the path of a PEM file of authorities to trust in place of the system's.
	CAFile string `yaml:"ca_file" env:"CA_FILE"`
	// CertFile is the path of a PEM file with a client certificate; it goes with
	// [TLS.KeyFile].
	CertFile string `yaml:"cert_file" env:"CERT_FILE"`
	// KeyFile is the path of a PEM file with the key of [TLS.CertFile].
	KeyFile string `yaml:"key_file" env:"KEY_FILE"`
	// ServerName is the name that the server's certificate must have. Absent: the
	// host that is connected to.
	ServerName string `yaml:"server_name" env:"SERVER_NAME"`
	// InsecureSkipVerify takes any certificate: for a test alone.
	InsecureSkipVerify bool `yaml:"insecure_skip_verify" env:"INSECURE_SKIP_VERIFY"`
}

// PollRetry is the wait after a failed poll, longer each time.
type PollRetry struct {
	// Initial is the wait after the first failure.
	Initial Duration `yaml:"initial" env:"INITIAL" default:"1s" above:"0"`
	// Max is the longest wait; no shorter than [PollRetry.Initial].
	Max Duration `yaml:"max" env:"MAX" default:"1m" above:"0"`
}

// Detections is the stream of detections.
//
//	appliances:
//	  - name: hq
//	    url: https://sensor.example
//	    api_key_file: /run/secrets/hq
//	    detections: {start: -7d, enrich: [devices, format, link]}
type Detections struct {
	// Enabled turns the stream on.
	Enabled bool `yaml:"enabled" env:"ENABLED" default:"true"`
	// Interval is the wait between polls while nothing is new.
	Interval Duration `yaml:"interval" env:"INTERVAL" default:"10s" above:"0"`
	// Start is where the first poll begins: now, beginning, a negative duration or a
	// time. Later ones go on from what was read.
	Start Start `yaml:"start" env:"START" default:"now"`
	// Overlap is how late a version may become visible and still be found without the
	// sweep. So far behind the position is read again: at every poll if that is one
	// page, else once in a quarter of it.
	Overlap Duration `yaml:"overlap" env:"OVERLAP" default:"2m" min:"0"`
	// PageSize is how many detections are asked for at once.
	PageSize int             `yaml:"page_size" env:"PAGE_SIZE" default:"1000" min:"2" max:"20000"`
	Filter   DetectionFilter `yaml:"filter" envPrefix:"FILTER_"`
	// Enrich is what is added to events beside the detection, each once: devices (the
	// participants' own), format (what the type is called), link (to the appliance's
	// pages).
	Enrich    []string  `yaml:"enrich" env:"ENRICH" oneof:"devices,format,link"`
	Reconcile Reconcile `yaml:"reconcile" envPrefix:"RECONCILE_"`
	// ForgetAfter is how long a detection is remembered after its last change; longer
	// than [Detections.Overlap] and [Reconcile.Back].
	ForgetAfter Duration `yaml:"forget_after" env:"FORGET_AFTER" default:"90d"`
}

// DetectionFilter is the appliance's own search filter: what does not match is never
// fetched, and what is absent does not filter.
//
// Its JSON is what the interface takes.
//
//	appliances:
//	  - name: hq
//	    url: https://sensor.example
//	    api_key_file: /run/secrets/hq
//	    detections:
//	      filter: {categories: [sec], status: [new, in_progress, .none], risk_score_min: 60}
type DetectionFilter struct {
	// Categories are sec, perf or custom, or one of these with a part behind a
	// dot, such as sec.botnet.
	Categories []string `yaml:"categories" env:"CATEGORIES" json:"categories,omitempty"`
	// Category is the old form of [DetectionFilter.Categories], for old appliances.
	Category string `yaml:"category" env:"CATEGORY" json:"category,omitempty"`
	// Assignee holds user names, .none (nobody) and .me (the key's owner).
	Assignee []string `yaml:"assignee" env:"ASSIGNEE" json:"assignee,omitempty"`
	// TicketID holds ticket ids, and .none (no ticket).
	TicketID []string `yaml:"ticket_id" env:"TICKET_ID" json:"ticket_id,omitempty"`
	// Status holds statuses, and .none (no status).
	Status []string `yaml:"status" env:"STATUS" json:"status,omitempty" oneof:"new,in_progress,closed,acknowledged,.none"`
	// Resolution holds resolutions, and .none (no resolution).
	Resolution []string `yaml:"resolution" env:"RESOLUTION" json:"resolution,omitempty" oneof:"action_taken,no_action_taken,.none"`
	// Types are types of detections.
	Types []string `yaml:"types" env:"TYPES" json:"types,omitempty"`
	// RiskScoreMin is the least risk score.
	RiskScoreMin *int `yaml:"risk_score_min" env:"RISK_SCORE_MIN" json:"risk_score_min,omitempty" min:"0" max:"100"`
	// Recommended wants those that the appliance recommends to look at, or the others;
	// on a console alone.
	Recommended *bool `yaml:"recommended" env:"RECOMMENDED" json:"recommended,omitempty"`
}

// Reconcile is the slow sweep that finds what became visible late.
type Reconcile struct {
	// Every is the time between sweeps. 0: none.
	Every Duration `yaml:"every" env:"EVERY" default:"6h" min:"0"`
	// Back is how far a sweep looks back.
	Back Duration `yaml:"back" env:"BACK" default:"72h" above:"0"`
}

// Audit is the stream of the audit log's entries: what people and tools did to the
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
	// PageSize is how many entries are asked for at once.
	PageSize int `yaml:"page_size" env:"PAGE_SIZE" default:"500" min:"2" max:"10000"`
}

// RecordQuery is a stream of records.
//
//	appliances:
//	  - name: hq
//	    url: https://sensor.example
//	    api_key_file: /run/secrets/hq
//	    records:
//	      - {name: dns, types: ["~dns"], start: -1d}
//	      - {name: errors, types: ["~http"], filter: {field: statusCode, operator: ">=", operand: 500}}
type RecordQuery struct {
	// Name is part of the source of events, of labels and commands: 1 to 63 of a-z, 0-9
	// and -. Each query of an appliance has its own.
	Name string `yaml:"name" env:"NAME" required:"true"`
	// Types are record types such as ~dns. Absent: all.
	Types []string `yaml:"types" env:"TYPES"`
	// Filter is the interface's own filter: a field (.any, .ipaddr and .port among them),
	// an operator and an operand, which is a value or {type, value}; or the operator and,
	// or, not with rules, a list of filters. {}: none.
	Filter RecordFilter `yaml:"filter" env:"FILTER"`
	// Interval is the wait between polls while there is nothing to read.
	Interval Duration `yaml:"interval" env:"INTERVAL" default:"30s" above:"0"`
	// Start is where the first poll begins, as for detections.
	Start Start `yaml:"start" env:"START" default:"now"`
	// Window is how much time is read at once near the present.
	Window Duration `yaml:"window" env:"WINDOW" default:"1m" min:"1ms"`
	// Delay is how late a record may be stored and still be read at once.
	Delay Duration `yaml:"delay" env:"DELAY" default:"30s" min:"0"`
	// PageSize is how many records are asked for at once.
	PageSize int `yaml:"page_size" env:"PAGE_SIZE" default:"1000" min:"2" max:"10000"`
	// Store says where the appliance keeps its records, and so whether it has cursors:
	// own is the product's record store, third_party another, and auto finds out.
	Store string `yaml:"store" env:"STORE" default:"auto" oneof:"auto,own,third_party"`
	// Recheck is the age at which a window is looked at again, for records that were
	// stored later than [RecordQuery.Delay], which is shorter. 0: never.
	Recheck Duration `yaml:"recheck" env:"RECHECK" default:"10m" min:"0"`
	// MaxWindowRecords is how many records one window may have; one with more is
	// divided. No less than [RecordQuery.PageSize].
	MaxWindowRecords int `yaml:"max_window_records" env:"MAX_WINDOW_RECORDS" default:"10000"`
	// ContextTTL is how long the appliance keeps a cursor that is not used.
	ContextTTL Duration `yaml:"context_ttl" env:"CONTEXT_TTL" default:"1m" min:"1ms"`
}

// Sink is one place that events are delivered to. Exactly one of [Sink.Kafka],
// [Sink.NATS], [Sink.Webhook] and [Sink.File] is there.
//
//	sinks:
//	  - name: lake
//	    kafka: {brokers: ["127.0.0.1:9092"], topic: "ndr.{stream}"}
//	    match: event.stream == "detections" && detection.risk_score >= 60
//	    lag: {max_age: 7d, policy: skip}
//	    redact: [detection.participants.username]
type Sink struct {
	// Name is part of labels and commands: 1 to 63 of a-z, 0-9 and -. Each sink has its
	// own.
	Name    string   `yaml:"name" env:"NAME" required:"true"`
	Kafka   *Kafka   `yaml:"kafka" envPrefix:"KAFKA_"`
	NATS    *NATS    `yaml:"nats" envPrefix:"NATS_"`
	Webhook *Webhook `yaml:"webhook" envPrefix:"WEBHOOK_"`
	File    *File    `yaml:"file" envPrefix:"FILE_"`
	// Mode is the content mode of CloudEvents: structured, or, but for files, binary; a
	// webhook may have batch, too. With a preset, a template or tickets it is left out.
	Mode string `yaml:"mode" env:"MODE" default:"structured" oneof:"structured,binary,batch"`
	// Match is an expression (CEL) that an event must match to be sent, over event (its
	// attributes, stream and action), and detection, audit or record. What is absent does
	// not match. Without an expression all are sent.
	Match string `yaml:"match" env:"MATCH"`
	// OnError is what happens to an event that match fails for, such as one whose
	// risk_score is a text: send it, drop it, or keep it as a dead_letter, which is sent
	// when it is requeued. Left out: dead_letter for a sink with redact, whose match may
	// guard what leaves; send for any other.
	OnError string `yaml:"on_error" env:"ON_ERROR" oneof:"send,drop,dead_letter"`
	// Start is where a new sink begins: now, beginning (of what the journal holds), a
	// negative duration or a time.
	Start Start     `yaml:"start" env:"START" default:"now"`
	Batch Batch     `yaml:"batch" envPrefix:"BATCH_"`
	Retry SendRetry `yaml:"retry" envPrefix:"RETRY_"`
	Lag   Lag       `yaml:"lag" envPrefix:"LAG_"`
	// Probe is the wait between the attempts of a sink that is halted.
	Probe Duration `yaml:"probe" env:"PROBE" default:"30s" above:"0"`
	// IsolateAfter is how many attempts in a row must fail before a batch is sent in
	// parts, to find an event that keeps failing while others pass.
	IsolateAfter int `yaml:"isolate_after" env:"ISOLATE_AFTER" default:"5" min:"1"`
	// MaxAttempts is after how many failures that may pass an event is given up and kept
	// among the dead letters. 0: never; one that keeps failing while others pass is
	// anyhow.
	MaxAttempts int `yaml:"max_attempts" env:"MAX_ATTEMPTS" default:"0" min:"0"`
	// RateLimit is how many events a second are sent at most. 0: no limit.
	RateLimit float64 `yaml:"rate_limit" env:"RATE_LIMIT" default:"0" min:"0"`
	// Redact names fields of data that this sink is never sent: names joined by dots, such
	// as detection.participants.username. A field of the detection is redacted in changes
	// too. Attributes of the event (its severity, which comes from risk_score, among them)
	// are not data.
	Redact []string `yaml:"redact" env:"REDACT"`
}

// Kind is the key of the block that s has: kafka, nats, webhook or file; empty
// without one.
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

// Batch bounds what is sent at once.
type Batch struct {
	// MaxEvents is how many events a batch has at most.
	MaxEvents int `yaml:"max_events" env:"MAX_EVENTS" default:"500" min:"1"`
	// MaxBytes is how large a batch is at most; one larger event is sent alone. Absent,
	// with the presets splunk_hec, elasticsearch and datadog: 4MiB.
	MaxBytes Size `yaml:"max_bytes" env:"MAX_BYTES" default:"1MiB" above:"0"`
	// Linger is how long a batch that is not full waits for more.
	Linger Duration `yaml:"linger" env:"LINGER" default:"50ms" min:"0"`
}

// SendRetry is the wait after a failure that may pass, longer each time.
type SendRetry struct {
	// Initial is the wait after the first failure.
	Initial Duration `yaml:"initial" env:"INITIAL" default:"500ms" above:"0"`
	// Max is the longest wait; no shorter than [SendRetry.Initial].
	Max Duration `yaml:"max" env:"MAX" default:"1m" above:"0"`
}

// The policies of Lag.
const (
	LagBlock = "block"
	LagSkip  = "skip"
)

// Lag is how far a sink may be behind, and what happens to one that is further. The
// presets slack, teams and discord, where it is left out, skip what is older than 6h
// or beyond a quarter of the journal.
type Lag struct {
	// MaxAge bounds the age of the oldest event that is yet to be delivered. 0: any.
	MaxAge Duration `yaml:"max_age" env:"MAX_AGE" default:"0" min:"0"`
	// MaxBytes bounds the size of all that is yet to be delivered; below
	// [Journal.MaxBytes]. 0: any.
	MaxBytes Size `yaml:"max_bytes" env:"MAX_BYTES" default:"0"`
	// Policy is what happens to a sink that is further behind. block: its events stay, and
	// may in the end fill the journal, so that polling pauses. skip, which needs one of
	// the bounds: the oldest are skipped, counted, and told by an event.
	Policy string `yaml:"policy" env:"POLICY" default:"block" oneof:"block,skip"`
}

// IsBounded reports whether l has a budget that can be used up.
func (l Lag) IsBounded() bool { return l.MaxAge > 0 || l.MaxBytes > 0 }

// Kafka is a topic, or several by template.
//
//	sinks:
//	  - name: lake
//	    kafka:
//	      brokers: ["kafka-1.example:9093", "kafka-2.example:9093"]
//	      topic: ndr.{stream}
//	      tls: {}
//	      sasl: {mechanism: scram-sha-512, username: ndrbridge, password_file: /run/secrets/kafka}
type Kafka struct {
	// Brokers are addresses, host:port, of at least one broker of the cluster.
	Brokers []string `yaml:"brokers" env:"BROKERS" required:"true"`
	// Topic is the topic; it may hold {stream}, {appliance} and {action}.
	Topic string `yaml:"topic" env:"TOPIC" default:"ndr.{stream}" required:"true"`
	// Acks says who must have an event before it counts as sent: all replicas
	// in sync, or one, the leader.
	Acks string `yaml:"acks" env:"ACKS" default:"all" oneof:"all,one"`
	// Compression is the codec of batches.
	Compression string `yaml:"compression" env:"COMPRESSION" default:"zstd" oneof:"none,gzip,snappy,lz4,zstd"`
	// TLS has connections secured; without it they are in the clear.
	TLS  *TLS `yaml:"tls" envPrefix:"TLS_"`
	SASL SASL `yaml:"sasl" envPrefix:"SASL_"`
	// MaxMessageBytes is the largest batch that is sent, compressed, and so the
	// largest event.
	MaxMessageBytes Size `yaml:"max_message_bytes" env:"MAX_MESSAGE_BYTES" default:"1MiB" above:"0"`
	// ClientID is the name by which the brokers log and meter the bridge.
	ClientID string `yaml:"client_id" env:"CLIENT_ID" default:"ndrbridge"`
	// CreateTopic has a topic that is missing made; without it, a person has to.
	CreateTopic *NewTopic `yaml:"create_topic" envPrefix:"CREATE_TOPIC_"`
}

// NewTopic is the shape of a topic that is made.
type NewTopic struct {
	// Partitions is how many it has. 0: what the brokers do by default.
	Partitions int `yaml:"partitions" env:"PARTITIONS" default:"0" min:"0" max:"2147483647"`
	// Replication is how many brokers have a copy. 0: what the brokers do by default.
	Replication int `yaml:"replication" env:"REPLICATION" default:"0" min:"0" max:"32767"`
}

// SASL is how the bridge signs in to the brokers: all of it is set, or nothing.
type SASL struct {
	// Mechanism is how the password is shown. Absent: the bridge does not sign in.
	Mechanism string `yaml:"mechanism" env:"MECHANISM" oneof:"plain,scram-sha-256,scram-sha-512"`
	// Username is the user's name.
	Username string `yaml:"username" env:"USERNAME"`
	// Password is the user's password.
	Password Secret `yaml:"password" env:"PASSWORD" envPrefix:"PASSWORD_"`
}

// NATS is a JetStream stream, or core NATS. At most one way of signing in is set:
// [NATS.CredsFile], [NATS.NKeyFile], [NATS.Token], or [NATS.Username] with
// [NATS.Password].
//
//	sinks:
//	  - name: bus
//	    nats: {url: "nats://127.0.0.1:4222", stream: NDR, create_stream: true}
type NATS struct {
	// URL is one server, or several by comma: nats, tls, ws or wss.
	URL URL `yaml:"url" env:"URL" required:"true"`
	// Stream is the JetStream stream. Absent: core NATS, which acknowledges nothing.
	Stream string `yaml:"stream" env:"STREAM"`
	// Subject is the subject; it may hold {stream}, {appliance} and {action}.
	Subject string `yaml:"subject" env:"SUBJECT" default:"ndr.{appliance}.{stream}.{action}" required:"true"`
	// CreateStream makes the stream where it is missing.
	CreateStream bool `yaml:"create_stream" env:"CREATE_STREAM"`
	// CredsFile is the path of a credentials file, a JWT with its seed.
	CredsFile string `yaml:"creds_file" env:"CREDS_FILE"`
	// NKeyFile is the path of a file that holds an NKey's seed.
	NKeyFile string `yaml:"nkey_file" env:"NKEY_FILE"`
	// Token is a token that the servers take.
	Token Secret `yaml:"token" env:"TOKEN" envPrefix:"TOKEN_"`
	// Username is the user's name.
	Username string `yaml:"username" env:"USERNAME"`
	// Password is the user's password.
	Password Secret `yaml:"password" env:"PASSWORD" envPrefix:"PASSWORD_"`
	// TLS has connections secured; without it the scheme of [NATS.URL] decides.
	TLS *TLS `yaml:"tls" envPrefix:"TLS_"`
	// MaxPending is how many messages may wait for their acknowledgement at once.
	MaxPending int `yaml:"max_pending" env:"MAX_PENDING" default:"4000" min:"1"`
}

// Webhook is an HTTP endpoint, or a service that is spoken to by a preset.
//
//	sinks:
//	  - name: soc
//	    webhook: {url: "https://collector.example/events", auth: {bearer_file: /run/secrets/soc}, gzip: true}
//	    mode: batch
//	  - name: chat
//	    webhook: {preset: slack, url: "https://hooks.slack.example/services/a-hook"}
//	    match: detection.risk_score >= 80
type Webhook struct {
	// URL is the address: http or https. It is required, but for the preset pagerduty,
	// which has one of its own.
	URL URL `yaml:"url" env:"URL"`
	// Preset is the service that is spoken to in its own words, in place of CloudEvents.
	// It decides which of the keys from [Webhook.Key] to [Webhook.Tags] may be set, and
	// gives other keys of the sink defaults of its own.
	Preset string `yaml:"preset" env:"PRESET" oneof:"slack,teams,discord,pagerduty,splunk_hec,elasticsearch,datadog"`
	// Key is the one secret of a preset beside what its URL holds: a bot's token (slack),
	// the routing key (pagerduty, required), the collector's token (splunk_hec, required),
	// an API key (elasticsearch; datadog, required).
	Key Secret `yaml:"key" env:"KEY" envPrefix:"KEY_"`
	// Channel is where the bot of slack posts; it goes with [Webhook.Key].
	Channel string `yaml:"channel" env:"CHANNEL"`
	// Updates is what the bot of slack does with later versions of a detection. edit: its
	// message shows the last one. thread: they are replies to it. post: messages of their
	// own. Absent: edit.
	Updates string `yaml:"updates" env:"UPDATES" oneof:"edit,thread,post"`
	// Index is the index of the events of splunk_hec. Absent: what the token says.
	Index string `yaml:"index" env:"INDEX"`
	// SourceType is the source type of the events of splunk_hec. Absent:
	// ndrbridge:<stream>.
	SourceType string `yaml:"source_type" env:"SOURCE_TYPE"`
	// Service is the service of the logs of datadog. Absent: ndrbridge.
	Service string `yaml:"service" env:"SERVICE"`
	// Tags are those of the logs of datadog beside ours, such as env:prod.
	Tags []string `yaml:"tags" env:"TAGS"`
	// Method is the method of requests. A preset, and a ticket system, take POST alone.
	Method string `yaml:"method" env:"METHOD" default:"POST" oneof:"POST,PUT,PATCH"`
	// Headers are sent with every request. Keys and tokens belong under auth where the
	// receiver takes them there.
	Headers Headers     `yaml:"headers" env:"HEADERS"`
	Auth    WebhookAuth `yaml:"auth" envPrefix:"AUTH_"`
	// Timeout is how long one request may take, its answer read. Absent, with splunk_hec:
	// 5m, until the events are indexed.
	Timeout Duration `yaml:"timeout" env:"TIMEOUT" default:"30s" above:"0"`
	TLS     TLS      `yaml:"tls" envPrefix:"TLS_"`
	// Proxy is the URL of a proxy: http, https or socks5. Absent: what HTTPS_PROXY and
	// NO_PROXY say.
	Proxy URL `yaml:"proxy" env:"PROXY"`
	// Concurrency is how many requests may be in flight; events that share a partition
	// key stay in order. Batches should hold 20 times as many events, or more.
	Concurrency int `yaml:"concurrency" env:"CONCURRENCY" default:"1" min:"1"`
	// Gzip compresses bodies of 1 KiB and more. Absent, with elasticsearch and datadog:
	// true.
	Gzip bool `yaml:"gzip" env:"GZIP"`
	// MaxBodyBytes is how large a body may be, before it is compressed. An event that
	// needs a larger one goes to the dead letters.
	MaxBodyBytes Size `yaml:"max_body_bytes" env:"MAX_BODY_BYTES" default:"10MiB" above:"0"`
	// Template makes the body of each event, in place of CloudEvents: Go's text/template
	// over .event (its attributes, stream and action) and .detection, .audit or .record,
	// with json, markdownEscape, truncate, default, upper, lower, join and int beside the
	// template's own functions. What is absent is empty. The body must be JSON, unless
	// [Webhook.Headers] has another Content-Type.
	Template string `yaml:"template" env:"TEMPLATE"`
	// TemplateFile is the path of a file that holds the template, in place of
	// [Webhook.Template].
	TemplateFile string      `yaml:"template_file" env:"TEMPLATE_FILE"`
	Sign         WebhookSign `yaml:"sign" envPrefix:"SIGN_"`
	// Ticket opens tickets; without it there are none.
	Ticket *WebhookTicket `yaml:"ticket" envPrefix:"TICKET_"`
	// Handshake asks the receiver for its consent before the first event, and for a rate,
	// which is then kept to; without it, the receiver is not asked.
	Handshake *WebhookHandshake `yaml:"handshake" envPrefix:"HANDSHAKE_"`
	// AllowLinkLocal permits connections to link-local addresses and to those where
	// clouds keep the credentials of machines, such as 169.254.169.254. With a proxy, the
	// proxy's own address is what is checked.
	AllowLinkLocal bool `yaml:"allow_link_local" env:"ALLOW_LINK_LOCAL"`
}

// WebhookAuth is the Authorization header: a bearer token, or a user name and
// a password, or neither.
type WebhookAuth struct {
	// Bearer is a bearer token.
	Bearer Secret `yaml:"bearer" env:"BEARER" envPrefix:"BEARER_"`
	// Username is a user's name, for basic authentication.
	Username string `yaml:"username" env:"USERNAME"`
	// Password is the user's password.
	Password Secret `yaml:"password" env:"PASSWORD" envPrefix:"PASSWORD_"`
}

// File is a file of one event a line, or standard output.
//
//	sinks:
//	  - name: archive
//	    file: {path: /var/lib/ndrbridge/events.jsonl, rotate: {max_bytes: 1GiB, keep: 10}}
type File struct {
	// Path is the path of the file; - for standard output. Each sink has its own.
	Path   string `yaml:"path" env:"PATH" required:"true"`
	Rotate Rotate `yaml:"rotate" envPrefix:"ROTATE_"`
}

// Rotate says when a file is put aside for a new one. It does not concern
// standard output.
type Rotate struct {
	// MaxBytes is the size at which a file is put aside. 0: never.
	MaxBytes Size `yaml:"max_bytes" env:"MAX_BYTES" default:"100MiB"`
	// Keep is how many files that were put aside are kept.
	Keep int `yaml:"keep" env:"KEEP" default:"5" min:"1"`
}
