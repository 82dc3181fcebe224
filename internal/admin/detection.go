package admin

import (
	"encoding/json"
	"time"
)

// Detection has everything that a bridge knows about one detection.
type Detection struct {
	Appliance string `json:"appliance"` // the appliance's name
	ID        int64  `json:"id"`        // the detection's id
	// The version that was last seen at the appliance; absent if nothing is remembered.
	Seen     *SeenDetection     `json:"seen,omitempty"`
	Versions []DetectionVersion `json:"versions"` // the versions and follow-ups, newest first
	// When the oldest event that was looked at was recorded; absent if the journal is empty.
	SearchedSince time.Time `json:"searched_since,omitzero"`
	WholeJournal  bool      `json:"whole_journal"` // whether the whole journal was searched
	// Whether all dead letters of the sinks were searched.
	WholeDeadLetters bool `json:"whole_dead_letters"`
	// The last commands about it or its ticket, newest first.
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
	ModTime time.Time `json:"mod_time,omitzero"` // when it was modified
	// When the detection was created; absent if not known.
	Created time.Time `json:"created,omitzero"`
	// The tracked fields of the last version that became an event.
	Fields json.RawMessage `json:"fields,omitempty"`
	Failed bool            `json:"failed,omitempty"` // whether it could not be made into an event
}

// DetectionVersion is a version of a detection, or a follow-up.
type DetectionVersion struct {
	Seq   uint64          `json:"seq"`   // the number of its event in the journal
	Event json.RawMessage `json:"event"` // its event
	// Whether the journal still keeps it; otherwise it is only in dead letters.
	Journalled bool `json:"journalled"`
	// Its delivery to each sink, in the order of the configuration.
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
	Sink string `json:"sink"` // the sink's name
	// pending, filtered (it does not match the sink's match as it is now), delivered, skipped,
	// dead_letter, parked (for a later attempt), or queued (for redelivery). An event whose dead
	// letter was dropped, or which is older than the sink, counts as delivered.
	Result string `json:"result"`
	Key    string `json:"key,omitempty"`    // the dead letter's key
	Class  string `json:"class,omitempty"`  // the dead letter's class
	Reason string `json:"reason,omitempty"` // the dead letter's reason
}
