package admin

import "time"

// Status is the state of a bridge at one moment. Its JSON is stable: fields are added,
// and never change their meaning. If Running is false, values that only a running
// bridge knows are absent.
type Status struct {
	Version string    `json:"version"`
	Running bool      `json:"running"`
	Started time.Time `json:"started,omitzero"`
	// ReadOnly reports whether the token of the request is the one for reading, with which
	// nothing can be changed.
	ReadOnly bool        `json:"read_only,omitempty"`
	State    StateStatus `json:"state"`
	// Reload is the result of the last reload of the configuration; nil: there has been
	// none since the start. In a cluster, it is that of the member that answers.
	Reload *ReloadStatus `json:"reload,omitempty"`
	// Appliances and Sinks are in the order of the configuration.
	Appliances []ApplianceStatus `json:"appliances"`
	Sinks      []SinkStatus      `json:"sinks"`
	// Intakes are the brokers from which the running bridge receives ticket commands.
	Intakes []IntakeStatus `json:"intakes,omitempty"`
	// Unconfigured are the sinks whose cursors are in the state but which are not in
	// the configuration. The journal keeps no events for them. They are sorted by name
	// and have neither Kind nor State.
	Unconfigured []SinkStatus `json:"unconfigured,omitempty"`
	// ShardErrors are the shards of a cluster that could not be asked. The other fields
	// are without them.
	ShardErrors []ShardError `json:"shard_errors,omitempty"`
	// Cluster is the cluster that the running bridge is a member of. The other fields
	// then describe all shards.
	Cluster *Cluster `json:"cluster,omitempty"`
}

// ShardError is the reason why the status of a shard of a cluster is missing.
type ShardError struct {
	Shard int    `json:"shard"`
	Error string `json:"error"`
}

// StateStatus describes the state file and its contents.
type StateStatus struct {
	Path      string  `json:"path"`
	FileBytes int64   `json:"file_bytes"`
	Journal   Journal `json:"journal"`
	// Commands counts the ticket commands in the state.
	Commands CommandCounts `json:"commands"`
}

// CommandCounts counts ticket commands.
type CommandCounts struct {
	Pending uint64 `json:"pending"` // not carried out yet
	Done    uint64 `json:"done"`
}

// Journal describes the journal, the buffer between sources and sinks.
type Journal struct {
	Events   uint64 `json:"events"`
	Bytes    int64  `json:"bytes"`
	MaxBytes int64  `json:"max_bytes"`
	// Full is true while the sources wait for space.
	Full bool `json:"full"`
}

// ApplianceStatus is the status of an appliance.
type ApplianceStatus struct {
	Name    string         `json:"name"`
	URL     string         `json:"url"`
	Streams []StreamStatus `json:"streams"`
	// Reachable reports whether the appliance can be polled; nil: not known yet. It
	// becomes false after as many failed polls as appliances.unreachable_after sets.
	Reachable *bool `json:"reachable,omitempty"`
	// Since is when Reachable last changed or, if the appliance was reachable from the
	// start, when its first poll succeeded.
	Since time.Time `json:"since,omitzero"`
	// Error is the error of the appliance's last failed poll. It is set while the
	// appliance is not reachable or the last poll of a stream failed.
	Error string `json:"error,omitempty"`
	// Firmware is the appliance's firmware version, read at the start and about once an
	// hour; empty: not known yet.
	Firmware string `json:"firmware,omitempty"`
	// ClockSkewSeconds is how far the appliance's clock is ahead of the bridge's,
	// measured by the Date header of its responses; negative: behind; nil: not known
	// yet.
	ClockSkewSeconds *float64 `json:"clock_skew_seconds,omitempty"`
	// DatesDisbelieved counts the responses since the start whose Date contradicted
	// earlier ones and was ignored.
	DatesDisbelieved uint64 `json:"dates_disbelieved,omitempty"`
	// Replaced is set while the state contains data of another appliance under this
	// name.
	Replaced *Replaced `json:"replaced,omitempty"`
	// Tickets is set while the bridge runs and writes tickets to the appliance.
	Tickets *TicketStatus `json:"tickets,omitempty"`
}

// Replaced reports that another appliance seems to answer under a known name.
type Replaced struct {
	Since  time.Time `json:"since"`  // when it was noticed
	Reason string    `json:"reason"` // what differs
}

// TicketStatus is the status of the writing of tickets to an appliance.
type TicketStatus struct {
	// State is running, retrying or halted, since Since. Error is the reason if it is
	// not running.
	State string    `json:"state"`
	Since time.Time `json:"since"`
	Error string    `json:"error,omitempty"`
}

// IntakeStatus is the status of a broker's ticket intake.
type IntakeStatus struct {
	Intake string `json:"intake"` // nats or kafka
	// State is running or retrying, since Since. Error is the reason if it is retrying.
	State string    `json:"state"`
	Since time.Time `json:"since,omitzero"`
	Error string    `json:"error,omitempty"`
	// Stored and Refused count messages since the intake was opened. A message counts
	// when its acknowledgement is confirmed.
	Stored  uint64 `json:"stored"`
	Refused uint64 `json:"refused"`
}

// StreamStatus is the status of a stream of an appliance.
type StreamStatus struct {
	Stream string `json:"stream"`
	// LastSuccess is when a poll last succeeded; absent: none has.
	LastSuccess time.Time `json:"last_success,omitzero"`
	// Failures counts the failed polls since LastSuccess, and Error is the error of the
	// last.
	Failures    int    `json:"failures"`
	Error       string `json:"error,omitempty"`
	DeadLetters uint64 `json:"dead_letters"`
	// DeadLettersDropped counts the dead letters that were deleted to make space for
	// newer ones. It is never reset.
	DeadLettersDropped uint64 `json:"dead_letters_dropped,omitzero"`
	// Position is the appliance's time up to which the stream was read; absent: it
	// has not been read.
	Position time.Time `json:"position,omitzero"`
	// LagSeconds is how far Position is behind the newest readable object; 0: the stream
	// was read to its end; nil: not known yet. It grows while polls fail.
	LagSeconds *float64 `json:"lag_seconds,omitempty"`
	// Events counts the events committed to the journal since the start of the bridge,
	// and EventsPerSecond is the mean of about the last minute. Both are 0 if the bridge
	// does not run.
	Events          uint64  `json:"events"`
	EventsPerSecond float64 `json:"events_per_second"`
	// Backlog is set while a backlog is read.
	Backlog *Backlog `json:"backlog,omitempty"`
}

// Backlog is the progress of reading a backlog.
type Backlog struct {
	At            time.Time `json:"at"` // the time up to which it was read
	BehindSeconds float64   `json:"behind_seconds"`
	// EventsPerSecond is the rate at which the backlog is read. RecordsPerSecond has the
	// same value; it dates from when only records had a Backlog.
	EventsPerSecond  float64 `json:"events_per_second"`
	RecordsPerSecond float64 `json:"records_per_second"`
	// LeftSeconds is the estimated time until it is read; 0: not known yet.
	LeftSeconds float64 `json:"left_seconds"`
}

// SinkStatus is the status of a sink.
type SinkStatus struct {
	Name string `json:"name"`
	Kind string `json:"kind,omitempty"` // kafka, nats, webhook, syslog or file
	// Preset is the preset of a webhook, or the ticket system in which it opens tickets;
	// empty: none.
	Preset string `json:"preset,omitempty"`
	// Target is where the sink delivers, for people: the hosts of its servers, or the path
	// of its file. It contains no secrets.
	Target string `json:"target,omitempty"`
	// State is running, retrying, halted, paused or stuck, since Since. Error is the reason if
	// it is not running. If the bridge does not run, State is paused or empty.
	State string    `json:"state,omitempty"`
	Since time.Time `json:"since,omitzero"`
	Error string    `json:"error,omitempty"`
	// NextAttempt is when delivery is tried again; absent unless State is retrying or halted.
	NextAttempt time.Time `json:"next_attempt,omitzero"`
	// Shard is the shard of a cluster whose State and Error these are, such as 03: the
	// one in the worst state. It is empty if the state is running, and outside a cluster.
	Shard string `json:"shard,omitempty"`
	// LagEvents and LagBytes measure the events that the sink has yet to complete, and
	// Oldest is when the oldest of them was seen.
	LagEvents uint64    `json:"lag_events"`
	LagBytes  int64     `json:"lag_bytes"`
	Oldest    time.Time `json:"oldest,omitzero"`
	// LagSeconds is the age of the oldest event; 0: there is none.
	LagSeconds float64 `json:"lag_seconds"`
	// Delivered counts the events that the target acknowledged since the start of the
	// bridge, including redeliveries, and EventsPerSecond is the mean of about the last
	// minute. Both are 0 if the bridge does not run.
	Delivered       uint64  `json:"delivered"`
	EventsPerSecond float64 `json:"events_per_second"`
	// LastDelivery is when the target last acknowledged an event; absent: it has not since
	// the start of the bridge.
	LastDelivery time.Time `json:"last_delivery,omitzero"`
	// Match counts the results of the sink's match since the start of the bridge; nil: it
	// has none, or the bridge does not run.
	Match *MatchStatus `json:"match,omitempty"`
	// OverLag is true if the lag exceeds its budget.
	OverLag bool `json:"over_lag,omitempty"`
	// FillsJournalInSeconds is the time until the sink's lag fills the journal, at the
	// rate of the last minutes; 0: not foreseeable.
	FillsJournalInSeconds float64 `json:"fills_journal_in_seconds,omitzero"`
	DeadLetters           uint64  `json:"dead_letters"`
	DeadLetterBytes       int64   `json:"dead_letter_bytes"`
	// DeadLetterMaxBytes is the limit of DeadLetterBytes, at which the sink halts.
	DeadLetterMaxBytes int64 `json:"dead_letter_max_bytes,omitempty"`
	// Redeliveries counts the events queued for redelivery.
	Redeliveries uint64 `json:"redeliveries"`
	// Parked counts the events that failed while others were delivered, or that wait for an
	// unavailable part of the target, and later events of the same detections. They are
	// retried periodically.
	Parked uint64 `json:"parked"`
	// Skipped counts the events that the sink never received: those that its lag policy
	// skipped, and those that were trimmed before it received them. It is never reset.
	Skipped uint64 `json:"skipped"`
}

// MatchStatus counts the results of a sink's match. An event that is read again, such as
// a redelivered one, counts again.
type MatchStatus struct {
	Matched  uint64 `json:"matched"`
	Filtered uint64 `json:"filtered"` // events that were not sent, because they do not match
	// Errors counts the events for which match failed, which are neither, and Error is the
	// text of the last failure. on_error decides what happens to them.
	Errors uint64 `json:"errors"`
	Error  string `json:"error,omitempty"`
}

// History holds samples of the last hour for charts, StepSeconds apart, oldest first.
// All its lists have the same length; nil stands for an unknown value. Its JSON is as
// stable as that of Status.
type History struct {
	StepSeconds int `json:"step_seconds"`
	// Until is when the last sample was taken.
	Until   time.Time      `json:"until,omitzero"`
	Journal JournalHistory `json:"journal"`
	// Streams and Sinks are in the order of the configuration.
	Streams []StreamHistory `json:"streams"`
	Sinks   []SinkHistory   `json:"sinks"`
}

// JournalHistory is the size of the journal.
type JournalHistory struct {
	Bytes []*int64 `json:"bytes"`
}

// StreamHistory is the history of a stream. A rate is the mean since the previous
// sample.
type StreamHistory struct {
	Appliance       string     `json:"appliance"`
	Stream          string     `json:"stream"`
	EventsPerSecond []*float64 `json:"events_per_second"`
	LagSeconds      []*float64 `json:"lag_seconds"`
}

// SinkHistory is the history of a sink. A rate is the mean since the previous sample.
type SinkHistory struct {
	Sink            string     `json:"sink"`
	EventsPerSecond []*float64 `json:"events_per_second"`
	LagEvents       []*uint64  `json:"lag_events"`
	LagSeconds      []*float64 `json:"lag_seconds"`
}
