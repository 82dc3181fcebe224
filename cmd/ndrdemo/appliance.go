package main

import (
	"time"

	standin "ndrbridge/test/appliance"
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
