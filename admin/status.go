package admin

import "time"

// Status is how a bridge is doing. Its JSON is stable: fields are added, and
// never change their meaning. What only a running bridge knows is absent where
// Running is false.
type Status struct {
	Version string      `json:"version"`
	Running bool        `json:"running"`
	Started time.Time   `json:"started,omitzero"`
	State   StateStatus `json:"state"`
	// Appliances and Sinks are in the order of the configuration.
	Appliances []ApplianceStatus `json:"appliances"`
	Sinks      []SinkStatus      `json:"sinks"`
	// Intakes are the brokers that ticket commands are received from, while the bridge
	// runs.
	Intakes []IntakeStatus `json:"intakes,omitempty"`
	// Unconfigured are sinks that the state keeps a cursor of, and that the
	// configuration does not have: they hold nothing back. They are in the order
	// of their names, and have neither Kind nor State.
	Unconfigured []SinkStatus `json:"unconfigured,omitempty"`
}

// StateStatus is the state file and the journal in it.
type StateStatus struct {
	Path      string  `json:"path"`
	FileBytes int64   `json:"file_bytes"`
	Journal   Journal `json:"journal"`
	// Commands are what appliances are to be told.
	Commands CommandCounts `json:"commands"`
}

// CommandCounts counts the commands that the state keeps.
type CommandCounts struct {
	Pending uint64 `json:"pending"` // that wait to be carried out
	Done    uint64 `json:"done"`
}

// Journal is what lies between sources and sinks.
type Journal struct {
	Events   uint64 `json:"events"`
	Bytes    int64  `json:"bytes"`
	MaxBytes int64  `json:"max_bytes"`
	// Full says that the sources wait for space.
	Full bool `json:"full"`
}

// ApplianceStatus is one appliance.
type ApplianceStatus struct {
	Name    string         `json:"name"`
	URL     string         `json:"url"`
	Streams []StreamStatus `json:"streams"`
	// Reachable reports whether the appliance can be polled; nil: not known yet. It is
	// not from the first failed poll on: appliances.unreachable_after says how many
	// there must be.
	Reachable *bool `json:"reachable,omitempty"`
	// Since is when it came to be so; for one that was reachable from the start on,
	// when its first poll succeeded.
	Since time.Time `json:"since,omitzero"`
	// Error is how the appliance's last failed poll failed, while it is not reachable
	// or the last poll of a stream has failed.
	Error string `json:"error,omitempty"`
	// Firmware is what the appliance told of its firmware at the start, and about once
	// an hour since; empty: nothing yet.
	Firmware string `json:"firmware,omitempty"`
	// ClockSkewSeconds is how far the appliance's clock is ahead of ours, by the Date of
	// its answers; below 0: behind. nil: there was none yet.
	ClockSkewSeconds *float64 `json:"clock_skew_seconds,omitempty"`
	// DatesDisbelieved counts the answers since the start whose Date contradicted those
	// before it, and was not believed.
	DatesDisbelieved uint64 `json:"dates_disbelieved,omitempty"`
	// Replaced is there while the state keeps what another appliance under this name left
	// in it.
	Replaced *Replaced `json:"replaced,omitempty"`
	// Tickets is there while the bridge runs and writes tickets to it.
	Tickets *TicketStatus `json:"tickets,omitempty"`
}

// Replaced is that another appliance seems to answer under the name of one that is known.
type Replaced struct {
	Since  time.Time `json:"since"`  // when it was noticed
	Reason string    `json:"reason"` // what differs
}

// TicketStatus is how the writing of tickets to an appliance goes.
type TicketStatus struct {
	// State is running, retrying or halted, since Since; Error says why it is not
	// running.
	State string    `json:"state"`
	Since time.Time `json:"since"`
	Error string    `json:"error,omitempty"`
}

// IntakeStatus is how the receiving of ticket commands from a broker goes.
type IntakeStatus struct {
	Intake string `json:"intake"` // nats or kafka
	// State is running, or retrying, since Since; Error says what fails.
	State string    `json:"state"`
	Since time.Time `json:"since,omitzero"`
	Error string    `json:"error,omitempty"`
	// Stored and Refused count messages since the intake was opened, each once its
	// acknowledgement was confirmed.
	Stored  uint64 `json:"stored"`
	Refused uint64 `json:"refused"`
}

// StreamStatus is one stream of an appliance.
type StreamStatus struct {
	Stream string `json:"stream"`
	// LastSuccess is when a poll last succeeded; absent: none has.
	LastSuccess time.Time `json:"last_success,omitzero"`
	// Failures counts the polls that failed since, and Error tells the last.
	Failures    int    `json:"failures"`
	Error       string `json:"error,omitempty"`
	DeadLetters uint64 `json:"dead_letters"`
	// DeadLettersDropped counts, for good, those that gave way to newer ones.
	DeadLettersDropped uint64 `json:"dead_letters_dropped,omitzero"`
	// Position is the appliance's time up to which the stream was read; absent: it
	// never was.
	Position time.Time `json:"position,omitzero"`
	// LagSeconds is how far that lies behind what could be read, as of the last answer: 0
	// once the stream was read to its end. nil: not known yet.
	LagSeconds *float64 `json:"lag_seconds,omitempty"`
	// Events counts what was committed to the journal since the start of the bridge,
	// and EventsPerSecond is the mean of about the last minute. Both are 0 of a bridge
	// that does not run.
	Events          uint64  `json:"events"`
	EventsPerSecond float64 `json:"events_per_second"`
	// Backlog is there while a backlog is read.
	Backlog *Backlog `json:"backlog,omitempty"`
}

// Backlog is how the reading of a backlog goes.
type Backlog struct {
	At            time.Time `json:"at"` // up to where it was read
	BehindSeconds float64   `json:"behind_seconds"`
	// EventsPerSecond is how fast it is read; RecordsPerSecond is the same, and was
	// there before streams other than records had a Backlog.
	EventsPerSecond  float64 `json:"events_per_second"`
	RecordsPerSecond float64 `json:"records_per_second"`
	// LeftSeconds is how long it may take; 0: not known yet.
	LeftSeconds float64 `json:"left_seconds"`
}

// SinkStatus is one sink.
type SinkStatus struct {
	Name string `json:"name"`
	Kind string `json:"kind,omitempty"` // kafka, nats, webhook or file
	// State is running, retrying, halted or paused, since Since; Error says why
	// it is not running. A bridge that does not run has no State but paused.
	State string    `json:"state,omitempty"`
	Since time.Time `json:"since,omitzero"`
	Error string    `json:"error,omitempty"`
	// The lag is what it has yet to settle, and Oldest when the oldest of it was
	// seen.
	LagEvents uint64    `json:"lag_events"`
	LagBytes  int64     `json:"lag_bytes"`
	Oldest    time.Time `json:"oldest,omitzero"`
	// LagSeconds is the age of the oldest; 0: there is none.
	LagSeconds float64 `json:"lag_seconds"`
	// Delivered counts what the target acknowledged since the start of the bridge,
	// again where it came again, and EventsPerSecond is the mean of about the last
	// minute. Both are 0 of a bridge that does not run.
	Delivered       uint64  `json:"delivered"`
	EventsPerSecond float64 `json:"events_per_second"`
	// OverLag says that the lag budget is used up.
	OverLag bool `json:"over_lag,omitempty"`
	// FillsJournalInSeconds is when, at the pace of the last minutes, what it has yet to
	// settle fills the journal; 0: not foreseeable.
	FillsJournalInSeconds float64 `json:"fills_journal_in_seconds,omitzero"`
	DeadLetters           uint64  `json:"dead_letters"`
	DeadLetterBytes       int64   `json:"dead_letter_bytes"`
	// DeadLetterMaxBytes is the sink's share; at it, the sink halts.
	DeadLetterMaxBytes int64 `json:"dead_letter_max_bytes,omitempty"`
	// Redeliveries are events queued to be delivered again.
	Redeliveries uint64 `json:"redeliveries"`
	// Skipped counts, for good, the events that the sink never got: those that its
	// lag policy skipped, and those that were trimmed before it had them.
	Skipped uint64 `json:"skipped"`
}
