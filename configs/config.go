// Package configs reads the configuration of the bridge: one YAML file and the
// environment over it, both onto one set of structs.
//
// A key of the file is the yaml tag of a field; its variable is the path of the
// key in capitals, joined by _, behind NDRBRIDGE_. A default tag holds the value
// of a key that nobody set, a oneof tag the only values that it may have. A
// field of type Secret stands for two keys: its own, and the same with _file.
package configs

// Config is the whole configuration. One that Load or Parse returned is valid.
// No way of printing it shows a secret.
type Config struct {
	// State is the path of the state file, made at the first start.
	State string `yaml:"state" env:"STATE" default:"./ndrbridge.db"`
	Log   Log    `yaml:"log" envPrefix:"LOG_"`
	// ShutdownTimeout bounds the time that batches in flight are given at the
	// end; above 0.
	ShutdownTimeout Duration `yaml:"shutdown_timeout" env:"SHUTDOWN_TIMEOUT" default:"20s"`
	Admin           Admin    `yaml:"admin" envPrefix:"ADMIN_"`
	Journal         Journal  `yaml:"journal" envPrefix:"JOURNAL_"`
	// DeadLetters bounds what the targets refused.
	DeadLetters DeadLetters `yaml:"dead_letters" envPrefix:"DEAD_LETTERS_"`
	Events      Events      `yaml:"events" envPrefix:"EVENTS_"`
	// Appliances holds at least one, each with a name of its own.
	Appliances []Appliance `yaml:"appliances" envPrefix:"APPLIANCES_"`
	// Sinks holds at least one, each with a name of its own.
	Sinks   []Sink  `yaml:"sinks" envPrefix:"SINKS_"`
	Tickets Tickets `yaml:"tickets" envPrefix:"TICKETS_"`
}

// Log says what is logged and how.
type Log struct {
	// Level is the least level that is logged; slog.Level reads it as it is.
	Level string `yaml:"level" env:"LEVEL" default:"info" oneof:"debug,info,warn,error"`
	// Format is text or json.
	Format string `yaml:"format" env:"FORMAT" default:"text" oneof:"text,json"`
}

// Admin is the address of health, metrics, the admin API and the status page.
type Admin struct {
	// Listen is host:port; beyond loopback only with a token.
	Listen string `yaml:"listen" env:"LISTEN" default:"127.0.0.1:9600"`
	// Token is the bearer token that requests must carry; unset: none.
	Token Secret `yaml:"token" env:"TOKEN" envPrefix:"TOKEN_"`
}

// Journal bounds the events that are kept between sources and sinks.
type Journal struct {
	// MaxBytes is how large the journal may become before sources pause; at
	// least 16MiB.
	MaxBytes Size `yaml:"max_bytes" env:"MAX_BYTES" default:"2GiB"`
	// Retain is how long delivered events are kept for a replay; 0: not at all.
	Retain Duration `yaml:"retain" env:"RETAIN" default:"24h"`
}

// DeadLetters bounds the dead letters of the sinks.
type DeadLetters struct {
	// MaxBytes is how large those of all sinks may become, in equal shares: a sink
	// that has used up its own halts. 0: no bound.
	MaxBytes Size `yaml:"max_bytes" env:"MAX_BYTES" default:"256MiB"`
}

// Events says what all events have in common, and which the bridge sends of its
// own accord.
type Events struct {
	// TypePrefix begins the type of every event.
	TypePrefix string `yaml:"type_prefix" env:"TYPE_PREFIX" default:"io.ndrbridge"`
	// Heartbeat is the time between two events that tell that the bridge lives; at
	// least a second, or 0: none.
	Heartbeat Duration `yaml:"heartbeat" env:"HEARTBEAT" default:"0"`
}

// Appliance is one appliance that is polled. Exactly one of APIKey and OAuth
// is set.
type Appliance struct {
	// Name is part of event sources and labels: [a-z0-9-], 1 to 63 characters,
	// never "bridge".
	Name string `yaml:"name" env:"NAME"`
	// URL is http or https, a host, perhaps a port, and nothing behind it, not
	// even a slash.
	URL string `yaml:"url" env:"URL"`
	// APIKey is the key that the appliance gave out.
	APIKey Secret `yaml:"api_key" env:"API_KEY" envPrefix:"API_KEY_"`
	// OAuth is the way in for the cloud edition.
	OAuth OAuth `yaml:"oauth" envPrefix:"OAUTH_"`
	// Product is the product's word in the authorization scheme and in paths.
	Product string `yaml:"product" env:"PRODUCT" default:"service"`
	// SchemeWord is the word in the authorization scheme alone; empty: Product.
	SchemeWord string `yaml:"scheme_word" env:"SCHEME_WORD"`
	// Timeout bounds one request, its answer read; above 0.
	Timeout Duration `yaml:"timeout" env:"TIMEOUT" default:"30s"`
	// RateLimit is in requests a second; above 0.
	RateLimit float64 `yaml:"rate_limit" env:"RATE_LIMIT" default:"5"`
	TLS       TLS     `yaml:"tls" envPrefix:"TLS_"`
	// Proxy is an http, https or socks5 URL; empty: what HTTPS_PROXY and
	// NO_PROXY say.
	Proxy URL `yaml:"proxy" env:"PROXY"`
	// Retry is the wait after a failed poll.
	Retry PollRetry `yaml:"retry" envPrefix:"RETRY_"`
	// AuthRetry is the wait after a refused key; above 0.
	AuthRetry Duration `yaml:"auth_retry" env:"AUTH_RETRY" default:"30s"`
	// UnreachableAfter is how many polls in a row must fail before the
	// appliance is told to be unreachable; at least 1.
	UnreachableAfter int        `yaml:"unreachable_after" env:"UNREACHABLE_AFTER" default:"3"`
	Detections       Detections `yaml:"detections" envPrefix:"DETECTIONS_"`
	Audit            Audit      `yaml:"audit" envPrefix:"AUDIT_"`
	// Records are the queries for records, each with a name of its own.
	Records []RecordQuery `yaml:"records" envPrefix:"RECORDS_"`
}

// OAuth is the client credentials grant; all of it is set, or nothing.
type OAuth struct {
	// TokenURL is where tokens are fetched.
	TokenURL     URL    `yaml:"token_url" env:"TOKEN_URL"`
	ClientID     string `yaml:"client_id" env:"CLIENT_ID"`
	ClientSecret Secret `yaml:"client_secret" env:"CLIENT_SECRET" envPrefix:"CLIENT_SECRET_"`
}

// IsSet tells whether anything of o was configured.
func (o OAuth) IsSet() bool { return o != OAuth{} }

// TLS is how a server is checked and what is shown to it. The zero TLS trusts
// the system's authorities and shows nothing.
type TLS struct {
	// CAFile is a PEM file of authorities to trust in place of the system's.
	CAFile string `yaml:"ca_file" env:"CA_FILE"`
	// CertFile and KeyFile are the PEM files of a client certificate; both or
	// none.
	CertFile string `yaml:"cert_file" env:"CERT_FILE"`
	KeyFile  string `yaml:"key_file" env:"KEY_FILE"`
	// ServerName is the name that the server's certificate must have; empty:
	// the host of the URL.
	ServerName string `yaml:"server_name" env:"SERVER_NAME"`
	// InsecureSkipVerify takes any certificate.
	InsecureSkipVerify bool `yaml:"insecure_skip_verify" env:"INSECURE_SKIP_VERIFY"`
}

// PollRetry is the wait between failed polls: Initial at first, longer each
// time, never above Max. Both are above 0.
type PollRetry struct {
	Initial Duration `yaml:"initial" env:"INITIAL" default:"1s"`
	Max     Duration `yaml:"max" env:"MAX" default:"1m"`
}

// Detections is the stream of detections.
type Detections struct {
	Enabled bool `yaml:"enabled" env:"ENABLED" default:"true"`
	// Interval is the wait of an idle stream between polls; above 0.
	Interval Duration `yaml:"interval" env:"INTERVAL" default:"10s"`
	// Start is where a stream without a position begins.
	Start Start `yaml:"start" env:"START" default:"now"`
	// Overlap is how far before its position a walk begins; 0 or more.
	Overlap Duration `yaml:"overlap" env:"OVERLAP" default:"2m"`
	// PageSize is how many detections are asked for at once; 2 to 20000.
	PageSize int             `yaml:"page_size" env:"PAGE_SIZE" default:"1000"`
	Filter   DetectionFilter `yaml:"filter" envPrefix:"FILTER_"`
	// Enrich is what is added to events: devices, format and link, each once.
	Enrich    []string  `yaml:"enrich" env:"ENRICH" oneof:"devices,format,link"`
	Reconcile Reconcile `yaml:"reconcile" envPrefix:"RECONCILE_"`
	// ForgetAfter is how long what is known of a detection is kept after its
	// last change; above Overlap and Reconcile.Back.
	ForgetAfter Duration `yaml:"forget_after" env:"FORGET_AFTER" default:"90d"`
}

// DetectionFilter is the filter of the interface's detection search. What is
// empty or nil does not filter. Its JSON is what the interface takes.
type DetectionFilter struct {
	// Categories are sec, perf or custom, or one of these with a part behind a
	// dot, such as sec.botnet.
	Categories []string `yaml:"categories" env:"CATEGORIES" json:"categories,omitempty"`
	// Category is the interface's deprecated form of Categories.
	Category string `yaml:"category" env:"CATEGORY" json:"category,omitempty"`
	// Assignee holds user names, .none (nobody) and .me (the key's owner).
	Assignee []string `yaml:"assignee" env:"ASSIGNEE" json:"assignee,omitempty"`
	// TicketID holds ticket ids, and .none (no ticket).
	TicketID   []string `yaml:"ticket_id" env:"TICKET_ID" json:"ticket_id,omitempty"`
	Status     []string `yaml:"status" env:"STATUS" json:"status,omitempty" oneof:"new,in_progress,closed,acknowledged,.none"`
	Resolution []string `yaml:"resolution" env:"RESOLUTION" json:"resolution,omitempty" oneof:"action_taken,no_action_taken,.none"`
	// Types are types of detections.
	Types []string `yaml:"types" env:"TYPES" json:"types,omitempty"`
	// RiskScoreMin is inclusive; 0 to 100.
	RiskScoreMin *int `yaml:"risk_score_min" env:"RISK_SCORE_MIN" json:"risk_score_min,omitempty"`
	// Recommended is valid on a console alone.
	Recommended *bool `yaml:"recommended" env:"RECOMMENDED" json:"recommended,omitempty"`
}

// Reconcile is the slow sweep that finds what became visible late.
type Reconcile struct {
	// Every is the time between sweeps; 0: none.
	Every Duration `yaml:"every" env:"EVERY" default:"6h"`
	// Back is how far a sweep looks back; above 0.
	Back Duration `yaml:"back" env:"BACK" default:"72h"`
}

// Audit is the stream of the audit log's entries.
type Audit struct {
	Enabled bool `yaml:"enabled" env:"ENABLED" default:"true"`
	// Interval is the wait between polls; above 0.
	Interval Duration `yaml:"interval" env:"INTERVAL" default:"30s"`
	// Start is where a stream without a position begins.
	Start Start `yaml:"start" env:"START" default:"now"`
	// PageSize is how many entries are asked for at once; 2 to 10000.
	PageSize int `yaml:"page_size" env:"PAGE_SIZE" default:"500"`
}

// RecordQuery is a stream of records.
type RecordQuery struct {
	// Name is part of event sources and labels: [a-z0-9-], 1 to 63 characters.
	Name string `yaml:"name" env:"NAME"`
	// Types are record types such as ~dns; empty: all.
	Types  []string     `yaml:"types" env:"TYPES"`
	Filter RecordFilter `yaml:"filter" env:"FILTER"`
	// Interval is the wait of an idle stream between polls; above 0.
	Interval Duration `yaml:"interval" env:"INTERVAL" default:"30s"`
	// Start is where a stream without a position begins.
	Start Start `yaml:"start" env:"START" default:"now"`
	// Window is how much time is read at once near the present; a millisecond or
	// more.
	Window Duration `yaml:"window" env:"WINDOW" default:"1m"`
	// Delay is how late a record may be stored and still be read at once; 0 or
	// more.
	Delay Duration `yaml:"delay" env:"DELAY" default:"30s"`
	// PageSize is how many records are asked for at once; 2 to 10000.
	PageSize int `yaml:"page_size" env:"PAGE_SIZE" default:"1000"`
	// Store says where the appliance keeps its records, and so whether it has
	// cursors: auto finds out.
	Store string `yaml:"store" env:"STORE" default:"auto" oneof:"auto,own,third_party"`
	// Recheck is the age at which a window is looked at again; above Delay, or 0:
	// never.
	Recheck Duration `yaml:"recheck" env:"RECHECK" default:"10m"`
	// MaxWindowRecords bounds what is read as one window; PageSize or more.
	MaxWindowRecords int `yaml:"max_window_records" env:"MAX_WINDOW_RECORDS" default:"10000"`
	// ContextTTL is how long a cursor lives without being used; a millisecond or
	// more.
	ContextTTL Duration `yaml:"context_ttl" env:"CONTEXT_TTL" default:"1m"`
}

// Sink is one place that events are delivered to. Exactly one of Kafka, NATS,
// Webhook and File is not nil.
type Sink struct {
	// Name is part of labels and commands: [a-z0-9-], 1 to 63 characters.
	Name    string   `yaml:"name" env:"NAME"`
	Kafka   *Kafka   `yaml:"kafka" envPrefix:"KAFKA_"`
	NATS    *NATS    `yaml:"nats" envPrefix:"NATS_"`
	Webhook *Webhook `yaml:"webhook" envPrefix:"WEBHOOK_"`
	File    *File    `yaml:"file" envPrefix:"FILE_"`
	// Mode is the content mode of CloudEvents: structured or, but for files,
	// binary; a webhook may have batch, too.
	Mode string `yaml:"mode" env:"MODE" default:"structured" oneof:"structured,binary,batch"`
	// Match is a CEL expression that an event must match to be sent; empty: all
	// are. See transform/match.
	Match string `yaml:"match" env:"MATCH"`
	// Start is where in the journal a sink without a cursor begins.
	Start Start `yaml:"start" env:"START" default:"now"`
	Batch Batch `yaml:"batch" envPrefix:"BATCH_"`
	// Retry is the wait after a transient failure.
	Retry SendRetry `yaml:"retry" envPrefix:"RETRY_"`
	Lag   Lag       `yaml:"lag" envPrefix:"LAG_"`
	// Probe is the wait of a halted sink between attempts; above 0.
	Probe Duration `yaml:"probe" env:"PROBE" default:"30s"`
	// IsolateAfter is after how many attempts in a row that failed a batch is
	// divided, to find an event at fault; at least 1.
	IsolateAfter int `yaml:"isolate_after" env:"ISOLATE_AFTER" default:"5"`
	// MaxAttempts is after how many transient failures an event counts as
	// rejected; 0: never.
	MaxAttempts int `yaml:"max_attempts" env:"MAX_ATTEMPTS" default:"0"`
	// RateLimit is in events a second; 0: no limit.
	RateLimit float64 `yaml:"rate_limit" env:"RATE_LIMIT" default:"0"`
	// Redact names fields of data that are never sent: paths such as
	// detection.participants.username.
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

// Batch bounds what is sent at once. All but Linger are above 0.
type Batch struct {
	MaxEvents int  `yaml:"max_events" env:"MAX_EVENTS" default:"500"`
	MaxBytes  Size `yaml:"max_bytes" env:"MAX_BYTES" default:"1MiB"`
	// Linger is how long a batch that is not full waits for more.
	Linger Duration `yaml:"linger" env:"LINGER" default:"50ms"`
}

// SendRetry is the wait between failed attempts to send: Initial at first,
// longer each time, never above Max. Both are above 0.
type SendRetry struct {
	Initial Duration `yaml:"initial" env:"INITIAL" default:"500ms"`
	Max     Duration `yaml:"max" env:"MAX" default:"1m"`
}

// The policies of Lag.
const (
	LagBlock = "block"
	LagSkip  = "skip"
)

// Lag is how far a sink may be behind, and what happens to one that is further:
// with LagBlock its events stay, though they may fill the journal; with LagSkip
// the oldest are skipped, and at least one of the bounds is set.
type Lag struct {
	// MaxAge bounds the age of what is yet to be delivered; 0: any.
	MaxAge Duration `yaml:"max_age" env:"MAX_AGE" default:"0"`
	// MaxBytes bounds the size of all of it; below Journal.MaxBytes; 0: any.
	MaxBytes Size   `yaml:"max_bytes" env:"MAX_BYTES" default:"0"`
	Policy   string `yaml:"policy" env:"POLICY" default:"block" oneof:"block,skip"`
}

// IsBounded tells whether l has a budget that can be used up.
func (l Lag) IsBounded() bool { return l.MaxAge > 0 || l.MaxBytes > 0 }

// Kafka is a topic, or several by template.
type Kafka struct {
	// Brokers are host:port; at least one.
	Brokers []string `yaml:"brokers" env:"BROKERS"`
	// Topic may hold {stream}, {appliance} and {action}.
	Topic string `yaml:"topic" env:"TOPIC" default:"ndr.{stream}"`
	// Acks says who must have an event before it counts as sent: all replicas
	// in sync, or one, the leader.
	Acks        string `yaml:"acks" env:"ACKS" default:"all" oneof:"all,one"`
	Compression string `yaml:"compression" env:"COMPRESSION" default:"zstd" oneof:"none,gzip,snappy,lz4,zstd"`
	// TLS is nil for connections in the clear.
	TLS  *TLS `yaml:"tls" envPrefix:"TLS_"`
	SASL SASL `yaml:"sasl" envPrefix:"SASL_"`
	// MaxMessageBytes is the largest batch that is sent, compressed, and so the
	// largest event; above 0.
	MaxMessageBytes Size `yaml:"max_message_bytes" env:"MAX_MESSAGE_BYTES" default:"1MiB"`
	// ClientID is what the brokers log and meter.
	ClientID string `yaml:"client_id" env:"CLIENT_ID" default:"ndrbridge"`
	// CreateTopic makes a topic that is missing; nil: a person has to.
	CreateTopic *NewTopic `yaml:"create_topic" envPrefix:"CREATE_TOPIC_"`
}

// NewTopic is the shape of a Kafka topic to be made. 0 is what the brokers do by
// default.
type NewTopic struct {
	Partitions  int `yaml:"partitions" env:"PARTITIONS" default:"0"`
	Replication int `yaml:"replication" env:"REPLICATION" default:"0"`
}

// SASL is who the bridge is to Kafka. Mechanism is empty for nobody, and then
// so is the rest.
type SASL struct {
	Mechanism string `yaml:"mechanism" env:"MECHANISM" oneof:"plain,scram-sha-256,scram-sha-512"`
	Username  string `yaml:"username" env:"USERNAME"`
	Password  Secret `yaml:"password" env:"PASSWORD" envPrefix:"PASSWORD_"`
}

// NATS is a JetStream stream, or core NATS. At most one way of signing in is
// set: CredsFile, NKeyFile, Token, or Username with Password.
type NATS struct {
	// URL is one server or several by comma; nats, tls, ws or wss.
	URL URL `yaml:"url" env:"URL"`
	// Stream is the JetStream stream; empty: core NATS, which acknowledges
	// nothing.
	Stream string `yaml:"stream" env:"STREAM"`
	// Subject may hold {stream}, {appliance} and {action}.
	Subject string `yaml:"subject" env:"SUBJECT" default:"ndr.{appliance}.{stream}.{action}"`
	// CreateStream makes the stream where it is missing.
	CreateStream bool   `yaml:"create_stream" env:"CREATE_STREAM"`
	CredsFile    string `yaml:"creds_file" env:"CREDS_FILE"`
	NKeyFile     string `yaml:"nkey_file" env:"NKEY_FILE"`
	Token        Secret `yaml:"token" env:"TOKEN" envPrefix:"TOKEN_"`
	Username     string `yaml:"username" env:"USERNAME"`
	Password     Secret `yaml:"password" env:"PASSWORD" envPrefix:"PASSWORD_"`
	// TLS is nil where the scheme of URL alone says whether TLS is used.
	TLS *TLS `yaml:"tls" envPrefix:"TLS_"`
	// MaxPending is how many messages may wait for their acknowledgement at
	// once; at least 1.
	MaxPending int `yaml:"max_pending" env:"MAX_PENDING" default:"4000"`
}

// Webhook is an HTTP endpoint.
type Webhook struct {
	// URL is http or https. The preset pagerduty has one of its own.
	URL URL `yaml:"url" env:"URL"`
	// Preset is the service that is spoken to in its own words; empty: CloudEvents.
	// It decides which of the fields from Key to Tags are set, and gives other keys
	// of the sink defaults of its own.
	Preset string `yaml:"preset" env:"PRESET" oneof:"slack,teams,discord,pagerduty,splunk_hec,elasticsearch,datadog"`
	// Key is the one secret of a preset beside what its URL holds: the bot's token
	// of slack, the routing key of pagerduty, the token of splunk_hec, the API key
	// of elasticsearch and datadog.
	Key Secret `yaml:"key" env:"KEY" envPrefix:"KEY_"`
	// Channel is where the bot of slack posts.
	Channel string `yaml:"channel" env:"CHANNEL"`
	// Updates is what the bot of slack does with later versions of a detection: it
	// edits the message, replies in its thread, or posts another.
	Updates string `yaml:"updates" env:"UPDATES" oneof:"edit,thread,post"`
	// Index and SourceType are those of the events of splunk_hec; empty: what the
	// token says, and ndrbridge:<stream>.
	Index      string `yaml:"index" env:"INDEX"`
	SourceType string `yaml:"source_type" env:"SOURCE_TYPE"`
	// Service is that of the logs of datadog; empty: ndrbridge.
	Service string `yaml:"service" env:"SERVICE"`
	// Tags are those of the logs of datadog beside ours, such as env:prod.
	Tags    []string    `yaml:"tags" env:"TAGS"`
	Method  string      `yaml:"method" env:"METHOD" default:"POST" oneof:"POST,PUT,PATCH"`
	Headers Headers     `yaml:"headers" env:"HEADERS"`
	Auth    WebhookAuth `yaml:"auth" envPrefix:"AUTH_"`
	// Timeout bounds one request, its answer read; above 0.
	Timeout Duration `yaml:"timeout" env:"TIMEOUT" default:"30s"`
	TLS     TLS      `yaml:"tls" envPrefix:"TLS_"`
	// Proxy is an http, https or socks5 URL; empty: what HTTPS_PROXY and
	// NO_PROXY say.
	Proxy URL `yaml:"proxy" env:"PROXY"`
	// Concurrency is how many requests may be in flight; at least 1.
	Concurrency int `yaml:"concurrency" env:"CONCURRENCY" default:"1"`
	// Gzip compresses bodies that are large enough to gain by it.
	Gzip bool `yaml:"gzip" env:"GZIP"`
	// MaxBodyBytes is how large a body may be, before it is compressed; above 0. An
	// event that needs a larger one is rejected.
	MaxBodyBytes Size `yaml:"max_body_bytes" env:"MAX_BODY_BYTES" default:"10MiB"`
	// Template makes the body of each event, in the place of CloudEvents; or the
	// file does that TemplateFile names. See transform/render.
	Template     string      `yaml:"template" env:"TEMPLATE"`
	TemplateFile string      `yaml:"template_file" env:"TEMPLATE_FILE"`
	Sign         WebhookSign `yaml:"sign" envPrefix:"SIGN_"`
	// Ticket is nil where no tickets are opened.
	Ticket *WebhookTicket `yaml:"ticket" envPrefix:"TICKET_"`
	// Handshake is nil where the receiver is not asked for its consent.
	Handshake *WebhookHandshake `yaml:"handshake" envPrefix:"HANDSHAKE_"`
	// AllowLinkLocal permits connections to link-local addresses and to those where
	// clouds keep the credentials of machines.
	AllowLinkLocal bool `yaml:"allow_link_local" env:"ALLOW_LINK_LOCAL"`
}

// WebhookAuth is the Authorization header: a bearer token, or a user name and
// a password, or neither.
type WebhookAuth struct {
	Bearer   Secret `yaml:"bearer" env:"BEARER" envPrefix:"BEARER_"`
	Username string `yaml:"username" env:"USERNAME"`
	Password Secret `yaml:"password" env:"PASSWORD" envPrefix:"PASSWORD_"`
}

// File is a file of one event a line, or standard output.
type File struct {
	// Path is - for standard output.
	Path   string `yaml:"path" env:"PATH"`
	Rotate Rotate `yaml:"rotate" envPrefix:"ROTATE_"`
}

// Rotate says when a file is put aside for a new one. It does not concern
// standard output.
type Rotate struct {
	// MaxBytes is the size at which a file is put aside; 0: never.
	MaxBytes Size `yaml:"max_bytes" env:"MAX_BYTES" default:"100MiB"`
	// Keep is how many files put aside are kept; at least 1.
	Keep int `yaml:"keep" env:"KEEP" default:"5"`
}
