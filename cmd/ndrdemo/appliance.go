package main

import (
	"time"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/ledger"
)

const (
	backlog     = 300
	backlogOver = 3 * time.Hour
	// auditBacklog is the number of audit log entries at the start.
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

// rates returns the rates for a total of versions per second. They include audit log
// entries and records in proportion.
func rates(versions float64) standin.Rates {
	const tieSize = 5
	return standin.Rates{
		Appear:  0.35 * versions,
		Update:  0.25 * versions,
		Close:   0.10 * versions,
		Tie:     0.25 * versions / tieSize,
		TieSize: tieSize,
		// The configured overlap covers some of them; a sweep finds the others.
		Late:   0.05 * versions,
		LateBy: 4 * time.Minute,

		AuditEntries: 0.2 * versions,
		Records:      0.5 * versions,
		RecordsLate:  0.05 * versions,
		RecordLateBy: 2 * time.Second,
	}
}

// Event sources of the objects that never change.
const (
	auditSource  = "ndrbridge://hq/auditlog"
	recordSource = "ndrbridge://hq/records/all"
)

// shown collects what an appliance has shown, for the comparison. It is not safe for
// concurrent use.
type shown struct {
	appliance *standin.Appliance
	history   []ledger.Version
}

// exhibit is everything that was shown up to one moment.
type exhibit struct {
	versions       []ledger.Version
	audit, records []ledger.Object
}

// now returns everything that was shown up to now.
func (s *shown) now() exhibit {
	s.history = append(s.history, ledger.VersionsOf(s.appliance, len(s.history))...)
	return exhibit{s.history, ledger.AuditEntriesOf(s.appliance), ledger.RecordsOf(s.appliance)}
}

// waiting returns how many detections, by their latest version, entries and records have
// not reached a sink yet.
func (e exhibit) waiting(l *ledger.Ledger, sink string) int {
	detections, _ := l.Missing(sink, e.versions)
	entries, _ := l.MissingObjects(sink, auditSource, e.audit)
	records, _ := l.MissingObjects(sink, recordSource, e.records)
	return detections + entries + records
}
