// Package configs reads the configuration of the bridge: YAML files, overridden by
// environment variables, into one set of structs.
//
// The yaml tag of a field is its key in the file. Its environment variable is
// NDRBRIDGE_ followed by the key's path in capitals, joined by underscores. A default
// tag holds the value of a key that is not set, and a oneof tag lists the permitted
// values; {presets} in it stands for the names of all presets. The min and max tags are
// inclusive bounds, and the above tag is an exclusive lower bound. A field whose required
// tag is true must not be empty. A with tag names another key of the block, which must be set if
// the key is, or, after =, the values of it with which the key may be set; if the required tag is
// with, the key must be set with these. A form tag names one of forms, which the text, or each text
// of a list, must have. A schemes tag lists the schemes that a URL may have; if the several tag
// is true, there may be several URLs, separated by commas. A field of type Secret stands for two
// keys: its own, and the same with the suffix _file.
//
// Validation and the JSON Schema both take these rules from the tags. Rules between keys are
// code, in the file of their block.
//
// The configuration reference and the JSON Schema are generated from the doc comments
// of the structs and their fields, without the leading name. An indented block is an
// example, which must load. Paragraphs after the first are for readers of the code and
// are left out. Run make reference after changing a comment.
package configs

// Config is the whole configuration of the bridge.
//
// A Config returned by Load or Parse is valid. Printing it never shows a secret.
type Config struct {
	// State is the path of the state file, which holds stream positions, the journal, the
	// sinks' cursors and dead letters. It is created at the first start. In a cluster, it is
	// the member's copy of the state that NATS stores.
	State string `yaml:"state" default:"./ndrbridge.db" required:"true"`
	// Cluster is the cluster that the bridge is a member of. Absent: it runs alone.
	Cluster *Cluster `yaml:"cluster"`
	Log     Log      `yaml:"log"`
	// ShutdownTimeout is how long batches in flight may take to complete when the bridge is
	// stopped. Deliveries that are still running then are abandoned, and the process exits
	// within a second. Their events are delivered again after the next start.
	ShutdownTimeout Duration    `yaml:"shutdown_timeout" default:"20s" above:"0"`
	Reload          Reload      `yaml:"reload"`
	Admin           Admin       `yaml:"admin"`
	Journal         Journal     `yaml:"journal"`
	DeadLetters     DeadLetters `yaml:"dead_letters"`
	Events          Events      `yaml:"events"`
	// Appliances are the appliances to poll, each independently of the others; at least
	// one.
	Appliances []Appliance `yaml:"appliances" required:"true"`
	// Sinks are the destinations of events, each independent of the others; at least one.
	Sinks []Sink `yaml:"sinks" required:"true"`
	// Notify lists the names of sinks that get the trouble of the bridge whatever their match:
	// appliance.unreachable, audit.gap, sink.halted, and the ends of these. A halted sink gets
	// none before it delivers again: name two, or watch the bridge.
	Notify  []string `yaml:"notify"`
	Tickets Tickets  `yaml:"tickets"`
}

// Log sets the level and the format of the log, which is written to standard error.
//
//	log: {level: debug, format: json}
type Log struct {
	// Level is the lowest level that is logged.
	Level string `yaml:"level" default:"info" oneof:"debug,info,warn,error"`
	// Format is the format of log lines: text, or json with one object per line.
	Format string `yaml:"format" default:"text" oneof:"text,json"`
}

// Reload configures when the bridge reloads its configuration by itself. Whenever SIGHUP,
// ndrbridge reload or the admin API asks for it, it does so at once.
//
//	reload: {watch: 30s}
type Reload struct {
	// Watch is how often the bridge looks for changes of the configuration files, of the files
	// in a configured folder, and of the files that sinks, ticket intakes and certificate
	// authorities of appliances are configured with. It reloads the configuration when their
	// content has changed and is the same at two successive looks: at least 1s, or 0 to
	// reload only when asked.
	Watch Duration `yaml:"watch" default:"0" min:"0"`
}

// Journal limits the journal, which stores events between the appliances and the sinks.
//
//	journal: {max_bytes: 8GiB, retain: 7d}
type Journal struct {
	// MaxBytes is the maximum size of the journal. Polling pauses while it is full of
	// undelivered events.
	MaxBytes Size `yaml:"max_bytes" default:"2GiB" min:"16MiB"`
	// Retain is how long delivered events are kept for a replay, as far as
	// [Journal.MaxBytes] allows. 0: they are not kept.
	Retain Duration `yaml:"retain" default:"24h" min:"0"`
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
	MaxBytes Size `yaml:"max_bytes" default:"256MiB"`
}

// Events configures the heartbeat events of the bridge itself.
//
//	events: {heartbeat: 1m}
type Events struct {
	// Heartbeat is the interval between heartbeat events, which show that the bridge is
	// running: at least 1s, or 0 for none.
	Heartbeat Duration `yaml:"heartbeat" default:"0" min:"0"`
}
