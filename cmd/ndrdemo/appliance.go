package main

import (
	"time"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/ledger"
)

const (
	backlog     = 300
	backlogOver = 3 * time.Hour
	// auditBacklog are entries of the audit log that are there from the start.
	auditBacklog = 50
	maxRate      = 1000
)

func newAppliance(seed uint64) *standin.Appliance {
	a := standin.New(standin.Options{Seed: seed})
	a.SetHazards(standin.Hazards{
		Reset:             0.04,
		TooManyRequests:   0.04,
		RetryAfter:        time.Second,
		ServerError:       0.04,
		ServerErrorStatus: 503,
		CutBody:           0.04,
	})
	a.AddBacklog(backlog, backlogOver)
	a.AddAudit(auditBacklog)
	return a
}

// rates spread so many versions a second over what happens to detections, and add
// a share of audit log entries and records.
func rates(versions float64) standin.Rates {
	const tieSize = 5
	return standin.Rates{
		Appear:  0.35 * versions,
		Update:  0.25 * versions,
		Close:   0.10 * versions,
		Tie:     0.25 * versions / tieSize,
		TieSize: tieSize,
		// The configuration's overlap covers a part of them; a sweep finds the
		// others.
		Late:   0.05 * versions,
		LateBy: 4 * time.Minute,

		AuditEntries: 0.2 * versions,
		Records:      0.5 * versions,
		RecordsLate:  0.05 * versions,
		RecordLateBy: 2 * time.Second,
	}
}

// The sources of what never changes.
const (
	auditSource  = "ndrbridge://hq/auditlog"
	recordSource = "ndrbridge://hq/records/all"
)

// shown is what an appliance has shown, as the judge reads it. It is not safe
// for concurrent use.
type shown struct {
	appliance *standin.Appliance
	history   []ledger.Version
}

// exhibit is what was shown up to a moment.
type exhibit struct {
	versions       []ledger.Version
	audit, records []ledger.Object
}

// now returns what was shown up to now.
func (s *shown) now() exhibit {
	s.history = append(s.history, ledger.VersionsOf(s.appliance, len(s.history))...)
	return exhibit{s.history, ledger.AuditEntriesOf(s.appliance), ledger.RecordsOf(s.appliance)}
}

// waiting is how much of it has yet to reach a sink: detections by their latest
// version, entries and records.
func (e exhibit) waiting(l *ledger.Ledger, sink string) int {
	detections, _ := l.Missing(sink, e.versions)
	entries, _ := l.MissingObjects(sink, auditSource, e.audit)
	records, _ := l.MissingObjects(sink, recordSource, e.records)
	return detections + entries + records
}
