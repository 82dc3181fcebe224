package poller

import (
	"time"
)

// The kinds of a Difference.
const (
	// DiffMissing marks an object that the appliance shows and that was never
	// journalled, although the stream's position is past it. A sweep or a rewind
	// reads it.
	DiffMissing = "missing"
	// diffPending marks an object that the appliance shows and that will be read: the
	// stream's position has not reached it.
	diffPending = "pending"
	// diffDead marks an object that could not be made into an event and is a dead
	// letter.
	diffDead = "dead"
)

// Difference is an object that the appliance shows differently from what was journalled.
// A version is the mod_time of a detection or the time of an audit log entry, in milliseconds
// since the epoch; 0: none.
type Difference struct {
	Kind   string `json:"kind"`   // how it differs
	Stream string `json:"stream"` // its stream
	ID     string `json:"id"`     // its id at the appliance
	// The version that the appliance shows.
	Shown      int64 `json:"shown,omitempty"`
	Journalled int64 `json:"journalled,omitempty"` // the version that was journalled
}

// Verification is the result of a comparison.
type Verification struct {
	Stream string `json:"stream"` // the stream
	// Where the comparison began: the requested time, or the start of the stream if that is later.
	Since    time.Time `json:"since"`
	Compared int       `json:"compared"` // the objects that the appliance showed
	// Those that were journalled in the same version.
	Same        int            `json:"same"`
	Differences map[string]int `json:"differences"` // the others by kind
}

// VerifyReport receives the progress and the findings of a comparison.
type VerifyReport struct {
	// Progress is called after each page with the number of objects compared so far,
	// and the time up to which they were compared.
	Progress func(stream string, compared int, at time.Time)
	// Found is called for each difference.
	Found func(Difference)
}

// verification is a comparison under way.
type verification struct {
	Verification
	report VerifyReport
}

func newVerification(stream string, from int64, report VerifyReport) *verification {
	return &verification{
		Verification{Stream: stream, Since: time.UnixMilli(from).UTC(), Differences: map[string]int{}}, report,
	}
}

func (v *verification) found(kind, id string, shown, journalled int64) {
	v.Differences[kind]++
	v.report.Found(Difference{Kind: kind, Stream: v.Stream, ID: id, Shown: shown, Journalled: journalled})
}
