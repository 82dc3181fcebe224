package admin

import "time"

// Status is the state of a bridge at one moment. Values that only a running bridge knows are absent
// if running is false.
type Status struct {
	Version string `json:"version"` // the program's version
	// Whether the bridge runs; false only in what commands print without one.
	Running bool      `json:"running"`
	Started time.Time `json:"started,omitzero"` // when it was started
	// Whether the token of the request is that of admin.read_token, which can change nothing.
	ReadOnly bool        `json:"read_only,omitempty"`
	State    StateStatus `json:"state"` // the state file and what it contains
	// The result of the last reload of the configuration; absent: there has been none since the
	// start. In a cluster, it is that of the owner.
	Reload *ReloadStatus `json:"reload,omitempty"`
	// The appliances, in the order of the configuration.
	Appliances []ApplianceStatus `json:"appliances"`
	Sinks      []SinkStatus      `json:"sinks"` // the sinks, in the order of the configuration
	// The brokers from which ticket commands are received.
	Intakes []IntakeStatus `json:"intakes,omitempty"`
	// Sinks that are in the state, but not in the configuration, by name.
	Unconfigured []SinkStatus `json:"unconfigured,omitempty"`
	// The cluster that the bridge is a member of. The other fields then describe its owner.
	Cluster *Cluster `json:"cluster,omitempty"`
}

// StateStatus describes the state file and its contents.
type StateStatus struct {
	Path      string        `json:"path"`       // its path
	FileBytes int64         `json:"file_bytes"` // its size
	Journal   Journal       `json:"journal"`    // the buffer between appliances and sinks
	Commands  CommandCounts `json:"commands"`   // the ticket commands
}

// CommandCounts counts ticket commands.
type CommandCounts struct {
	Pending uint64 `json:"pending"` // how many are not carried out yet
	Done    uint64 `json:"done"`    // how many are
}

// Journal describes the journal, the buffer between sources and sinks.
type Journal struct {
	Events   uint64 `json:"events"`    // the number of its events
	Bytes    int64  `json:"bytes"`     // its size
	MaxBytes int64  `json:"max_bytes"` // the size at which polling pauses
	Full     bool   `json:"full"`      // whether polling pauses until there is space
}

// ApplianceStatus is the status of an appliance.
type ApplianceStatus struct {
	Name    string         `json:"name"`    // its name
	URL     string         `json:"url"`     // its address
	Streams []StreamStatus `json:"streams"` // its streams
	// Whether it can be polled; absent if not known yet.
	Reachable *bool     `json:"reachable,omitempty"`
	Since     time.Time `json:"since,omitzero"` // when reachable last changed
	// The error of its last failed poll, while it is not reachable or the last poll of a stream
	// failed.
	Error string `json:"error,omitempty"`
	Cause string `json:"cause,omitempty"` // that error in a few words
	// Its firmware's version; absent if not known yet.
	Firmware string `json:"firmware,omitempty"`
	// How far its clock is ahead of the bridge's; negative: behind; absent if not known yet.
	ClockSkewSeconds *float64 `json:"clock_skew_seconds,omitempty"`
	// Responses since the start whose Date contradicted earlier ones and was ignored.
	DatesDisbelieved uint64 `json:"dates_disbelieved,omitempty"`
	// Another appliance seems to answer under this name.
	Replaced *Replaced     `json:"replaced,omitempty"`
	Tickets  *WriterStatus `json:"tickets,omitempty"` // the writing of tickets to it
	Rules    *WriterStatus `json:"rules,omitempty"`   // the writing of tuning rules to it
	Notes    *WriterStatus `json:"notes,omitempty"`   // the writing of notes to it
}

// Replaced reports that another appliance seems to answer under a known name.
type Replaced struct {
	Since  time.Time `json:"since"`  // when it was noticed
	Reason string    `json:"reason"` // what differs
}

// WriterStatus is the status of the writing of tickets, tuning rules or notes to an appliance.
type WriterStatus struct {
	State string    `json:"state"`           // running, retrying or halted
	Since time.Time `json:"since"`           // since when
	Error string    `json:"error,omitempty"` // why it is not running
	Cause string    `json:"cause,omitempty"` // that error in a few words
}

// IntakeStatus is the status of a broker's ticket intake.
type IntakeStatus struct {
	Intake  string    `json:"intake"`          // nats or kafka
	State   string    `json:"state"`           // running or retrying
	Since   time.Time `json:"since,omitzero"`  // since when
	Error   string    `json:"error,omitempty"` // why it is retrying
	Cause   string    `json:"cause,omitempty"` // that error in a few words
	Stored  uint64    `json:"stored"`          // messages stored since it was opened
	Refused uint64    `json:"refused"`         // messages refused since it was opened
}

// StreamStatus is the status of a stream of an appliance.
type StreamStatus struct {
	// Its name: detections, audit, or records/ and the name of the query.
	Stream string `json:"stream"`
	// When a poll last succeeded; absent if none has.
	LastSuccess time.Time `json:"last_success,omitzero"`
	Failures    int       `json:"failures"`        // failed polls since then
	Error       string    `json:"error,omitempty"` // the error of the last of them
	Cause       string    `json:"cause,omitempty"` // that error in a few words
	// Whether it is off, because the appliance answers 403 or 404 about what it reads.
	Off bool `json:"off,omitzero"`
	// When it is polled again; absent unless the last poll failed.
	NextAttempt time.Time `json:"next_attempt,omitzero"`
	DeadLetters uint64    `json:"dead_letters"` // objects that could not be made into events
	// Dead letters that were deleted to make space for newer ones.
	DeadLettersDropped uint64 `json:"dead_letters_dropped,omitzero"`
	// The appliance's time up to which the stream was read; absent if it was not.
	Position time.Time `json:"position,omitzero"`
	// How far the position is behind the newest object; 0: read to the end; absent if not known yet.
	// It grows while polls fail, and is the time since the last answer if they failed from the start.
	LagSeconds *float64 `json:"lag_seconds,omitempty"`
	// Events committed to the journal since the start.
	Events          uint64  `json:"events"`
	EventsPerSecond float64 `json:"events_per_second"` // the mean of about the last minute
	// Detections that got no evidence since the start. ndrbridge_source_skipped_total has the reasons.
	Skipped uint64   `json:"skipped,omitzero"`
	Backlog *Backlog `json:"backlog,omitempty"` // the progress of reading a backlog
}

// Backlog is the progress of reading a backlog.
type Backlog struct {
	At               time.Time `json:"at"`                 // the time up to which it was read
	BehindSeconds    float64   `json:"behind_seconds"`     // how far that is in the past
	EventsPerSecond  float64   `json:"events_per_second"`  // the rate at which it is read
	RecordsPerSecond float64   `json:"records_per_second"` // the same value
	// The estimated time until it is read; 0: not known yet.
	LeftSeconds float64 `json:"left_seconds"`
}

// SinkStatus is the status of a sink.
type SinkStatus struct {
	Name string `json:"name"`           // its name
	Kind string `json:"kind,omitempty"` // kafka, nats, webhook, syslog or file
	// The preset of a webhook, or the ticket system in which it opens tickets; absent if it has none.
	Preset string `json:"preset,omitempty"`
	// Where it delivers, for people, without secrets: the hosts of its servers, or the path of its file.
	Target string `json:"target,omitempty"`
	// running, retrying, halted, paused or stuck (a delivery does not end).
	State string    `json:"state,omitempty"`
	Since time.Time `json:"since,omitzero"`  // since when
	Error string    `json:"error,omitempty"` // why it is not running
	Cause string    `json:"cause,omitempty"` // that error in a few words
	// When delivery is tried again; absent unless it is retrying or halted.
	NextAttempt time.Time `json:"next_attempt,omitzero"`
	LagEvents   uint64    `json:"lag_events"` // the events that it has yet to complete
	LagBytes    int64     `json:"lag_bytes"`  // their size
	// When the oldest of them was seen; absent if there is none.
	Oldest     time.Time `json:"oldest,omitzero"`
	LagSeconds float64   `json:"lag_seconds"` // the age of that event; 0 if there is none
	// Events that the target acknowledged since the start, with redeliveries.
	Delivered       uint64  `json:"delivered"`
	EventsPerSecond float64 `json:"events_per_second"` // the mean of about the last minute
	// When the target last acknowledged an event; absent if it has not since the start.
	LastDelivery time.Time `json:"last_delivery,omitzero"`
	// The results of its match; absent if it has none or the bridge does not run.
	Match   *MatchStatus `json:"match,omitempty"`
	OverLag bool         `json:"over_lag,omitempty"` // whether the lag exceeds its budget
	// When the sink's lag fills the journal at the rate of the last minutes; absent if that is not
	// foreseeable.
	FillsJournalInSeconds float64 `json:"fills_journal_in_seconds,omitzero"`
	DeadLetters           uint64  `json:"dead_letters"`      // the number of its dead letters
	DeadLetterBytes       int64   `json:"dead_letter_bytes"` // their size
	// The size of dead letters at which the sink halts.
	DeadLetterMaxBytes int64  `json:"dead_letter_max_bytes,omitempty"`
	Redeliveries       uint64 `json:"redeliveries"` // events queued for redelivery
	// Events that failed while others were delivered, or that wait for an unavailable part of the
	// target, and later events of the same detections. They are retried periodically.
	Parked uint64 `json:"parked"`
	// Events that it never received: its lag policy skipped them, or they were trimmed before.
	Skipped uint64 `json:"skipped"`
}

// MatchStatus counts the results of a sink's match. An event that is read again, such as
// a redelivered one, counts again.
type MatchStatus struct {
	Matched  uint64 `json:"matched"`  // events that matched
	Filtered uint64 `json:"filtered"` // events that did not match, and were not sent
	// Events that did not match since one last did.
	ConsecutiveFiltered uint64 `json:"consecutive_filtered"`
	// When the first of these was read; absent if there is none.
	FilteredSince time.Time `json:"filtered_since,omitzero"`
	// Events for which match failed; on_error decides what happens to them.
	Errors uint64 `json:"errors"`
	Error  string `json:"error,omitempty"` // the last failure; absent if there was none
}

// MatchesNothing reports whether none of the last 1,000 events matched.
func (m *MatchStatus) MatchesNothing() bool { return m != nil && m.ConsecutiveFiltered >= 1000 }

// History holds samples of the last hour, oldest first. All its lists have the same length.
type History struct {
	StepSeconds int            `json:"step_seconds"`   // the time between two samples
	Until       time.Time      `json:"until,omitzero"` // when the last sample was taken
	Journal     JournalHistory `json:"journal"`        // the size of the journal
	// The streams, in the order of the configuration.
	Streams []StreamHistory `json:"streams"`
	Sinks   []SinkHistory   `json:"sinks"` // the sinks, in the order of the configuration
}

// JournalHistory is the size of the journal.
type JournalHistory struct {
	Bytes []*int64 `json:"bytes"` // a value for each sample; null: unknown
}

// StreamHistory is the history of a stream. A rate is the mean since the previous
// sample.
type StreamHistory struct {
	Appliance       string     `json:"appliance"`         // the appliance's name
	Stream          string     `json:"stream"`            // the stream
	EventsPerSecond []*float64 `json:"events_per_second"` // a value for each sample; null: unknown
	LagSeconds      []*float64 `json:"lag_seconds"`       // a value for each sample; null: unknown
}

// SinkHistory is the history of a sink. A rate is the mean since the previous sample.
type SinkHistory struct {
	Sink            string     `json:"sink"`              // the sink's name
	EventsPerSecond []*float64 `json:"events_per_second"` // a value for each sample; null: unknown
	LagEvents       []*uint64  `json:"lag_events"`        // a value for each sample; null: unknown
	LagSeconds      []*float64 `json:"lag_seconds"`       // a value for each sample; null: unknown
}
