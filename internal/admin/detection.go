package admin

import (
	"encoding/json"
	"time"
)

// Detection is what a bridge knows about one detection. Its JSON is stable: fields are added,
// and never change their meaning.
type Detection struct {
	Appliance string `json:"appliance"`
	ID        int64  `json:"id"`
	// Seen is what is remembered of the version that was last seen at the appliance; absent:
	// nothing is.
	Seen *SeenDetection `json:"seen,omitempty"`
	// Versions are the versions for which there is an event in the journal or in a dead letter,
	// newest first.
	Versions []DetectionVersion `json:"versions"`
	// SearchedSince is when the oldest event of the journal that was looked at was recorded:
	// the versions since then are all here. It is absent if the journal is empty. The work for
	// an answer is bounded; WholeJournal is true if the whole journal was searched.
	SearchedSince time.Time `json:"searched_since,omitzero"`
	WholeJournal  bool      `json:"whole_journal"`
	// WholeDeadLetters is true if all dead letters of the sinks were searched.
	WholeDeadLetters bool `json:"whole_dead_letters"`
	// Commands are the last ticket commands about the detection or its ticket, newest first.
	Commands []TicketCommand `json:"commands"`
}

// fillLists makes lists without items of those that are nil: the JSON has no null.
func (d *Detection) fillLists() {
	if d.Versions == nil {
		d.Versions = []DetectionVersion{}
	}
	if d.Commands == nil {
		d.Commands = []TicketCommand{}
	}
}

// SeenDetection is the version of a detection that was last seen at the appliance.
type SeenDetection struct {
	ModTime time.Time `json:"mod_time,omitzero"`
	Created time.Time `json:"created,omitzero"`
	// Fields are the tracked fields of the last version that became an event; absent: none did.
	Fields json.RawMessage `json:"fields,omitempty"`
	// Failed is true if the version could not be converted into an event: it is a dead letter
	// of the stream.
	Failed bool `json:"failed,omitempty"`
}

// DetectionVersion is a version of a detection.
type DetectionVersion struct {
	// Seq is the number of its event in the journal of the bridge or, in a cluster, of the
	// shard of the appliance.
	Seq   uint64          `json:"seq"`
	Event json.RawMessage `json:"event"`
	// Journalled is false if the event is only in dead letters, because the journal does not
	// keep it any more.
	Journalled bool `json:"journalled"`
	// Sinks are the configured sinks that the state knows, in their order.
	Sinks []DetectionDelivery `json:"sinks"`
}

// Values of DetectionDelivery.Result.
const (
	ResultPending    = "pending"     // not delivered yet
	ResultFiltered   = "filtered"    // it does not match the sink's match, as it is now
	ResultDelivered  = "delivered"   // the sink's cursor is past it, and none of the others
	ResultSkipped    = "skipped"     // by the sink's lag policy, or trimmed before delivery
	ResultDeadLetter = "dead_letter" // kept among the sink's dead letters
	ResultQueued     = "queued"      // for redelivery
	ResultParked     = "parked"      // for a later attempt
)

// DetectionDelivery is the delivery of a version to a sink, as far as the state knows: an event
// whose dead letter was dropped, or which is older than the sink, counts as delivered.
type DetectionDelivery struct {
	Sink   string `json:"sink"`
	Result string `json:"result"` // pending, filtered, delivered, skipped, dead_letter, queued or parked
	// Key, Class and Reason are those of the dead letter.
	Key    string `json:"key,omitempty"`
	Class  string `json:"class,omitempty"`
	Reason string `json:"reason,omitempty"`
}
