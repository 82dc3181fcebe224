package main

import (
	"time"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/ledger"
)

const (
	backlog     = 300
	backlogOver = 3 * time.Hour
	maxRate     = 1000
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
	return a
}

// rates spread so many versions a second over what happens to detections.
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
	}
}

// shown is what an appliance has shown, as the judge reads it. It is not safe
// for concurrent use.
type shown struct {
	appliance *standin.Appliance
	history   []ledger.Version
}

// versions returns the history up to now.
func (s *shown) versions() []ledger.Version {
	for _, v := range s.appliance.History()[len(s.history):] {
		s.history = append(s.history, ledger.Version{ID: v.ID, ModTime: v.ModTime, Object: string(v.JSON)})
	}
	return s.history
}
