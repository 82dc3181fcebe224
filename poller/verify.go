package poller

import (
	"time"
)

// The kinds of a Difference.
const (
	// DiffMissing is what the appliance shows and was never journalled, although
	// the stream's position lies behind it. A sweep or a rewind reads it.
	DiffMissing = "missing"
	// DiffPending is what the appliance shows and will be read: it lies beyond
	// the stream's position.
	DiffPending = "pending"
	// DiffOlder is what the appliance shows in an older version than was
	// journalled, as after it was restored from a backup.
	DiffOlder = "older"
	// DiffGone is what was journalled and the appliance no longer shows: it was
	// deleted or is hidden.
	DiffGone = "gone"
	// DiffFiltered is what was journalled, and the stream's filter no longer
	// selects.
	DiffFiltered = "filtered"
	// DiffDead is what could not be made into an event and lies among the dead
	// letters.
	DiffDead = "dead"
)

// Difference is one object that an appliance shows in another way than it was
// journalled. Versions are what tells two of one object apart: of a detection
// its mod_time, of an audit log entry its time, both in milliseconds since the
// epoch; 0: none.
type Difference struct {
	Kind       string `json:"kind"`
	Stream     string `json:"stream"`
	ID         string `json:"id"`
	Shown      int64  `json:"shown,omitempty"`
	Journalled int64  `json:"journalled,omitempty"`
}

// Verification is what a comparison came to.
type Verification struct {
	Stream string `json:"stream"`
	// Since is where the comparison began: the time asked for, or the stream's
	// start where that is later.
	Since time.Time `json:"since"`
	// Compared counts the objects that the appliance showed, and Same those of
	// them that were journalled as they are.
	Compared int `json:"compared"`
	Same     int `json:"same"`
	// Differences counts the others by kind.
	Differences map[string]int `json:"differences"`
}

// VerifyReport hears how a comparison goes.
type VerifyReport struct {
	// Progress is called after each page: how many objects were compared, and
	// the time up to which.
	Progress func(stream string, compared int, at time.Time)
	// Found is called for each difference.
	Found func(Difference)
}

// verification is a comparison under way.
type verification struct {
	Verification
	report VerifyReport
}

func (v *verification) found(kind, id string, shown, journalled int64) {
	v.Differences[kind]++
	v.report.Found(Difference{Kind: kind, Stream: v.Stream, ID: id, Shown: shown, Journalled: journalled})
}
