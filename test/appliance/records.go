package appliance

import (
	"time"

	"ndrbridge/test/appliance/record"
	"ndrbridge/test/appliance/rest"
)

// Record is a stored record. It must not be modified.
type Record = record.Record

// AddRecords stores n generated records with the timestamp of now. While a client has halted
// the ingest of records, they are lost, and it returns none.
func (a *Appliance) AddRecords(n int) []*Record {
	// Each reads the clock, so that fractions differ.
	return a.storeRecords(n, func() int64 { return a.Clock().UnixMicro() })
}

// AddRecordsAt stores n generated records with one timestamp, in microseconds
// since the epoch: tied, or late. While the ingest is halted, they are lost.
func (a *Appliance) AddRecordsAt(n int, micros int64) []*Record {
	return a.storeRecords(n, func() int64 { return micros })
}

func (a *Appliance) storeRecords(n int, micros func() int64) []*Record {
	if a.system.cluster.Value()["ingest_enabled"] == false {
		return nil
	}
	return a.records.Add(n, micros)
}

// AddRecordBacklog adds n records whose timestamps are spread evenly over the time up to
// now. They are generated when they are read, take no memory, and are not part of the
// history. It returns an error if there is a backlog already.
func (a *Appliance) AddRecordBacklog(n int, over time.Duration) error {
	return a.records.AddBacklog(n, over)
}

// RecordHistory returns every stored record, in the order of storing, without those of a
// backlog. It is empty if Options.NoHistory is set.
func (a *Appliance) RecordHistory() []*Record { return a.records.History() }

func (a *Appliance) searchRecords(r *request) rest.Answer {
	return a.records.Search(r.Request, r.behaviour.ofRecords())
}

func (a *Appliance) nextRecords(r *request) rest.Answer {
	return a.records.Next(r.Request, r.behaviour.ofRecords())
}

// ofRecords returns the hazards of a request to the record store.
func (f behaviour) ofRecords() record.Behaviour {
	return record.Behaviour{
		LimitCap: f.LimitCap, LimitRefused: f.LimitRefused, Batch: f.RecordBatch,
		UntilInclusive: f.RecordUntilInclusive, WholeMillis: f.RecordWholeMillis, TiesShuffle: f.RecordTiesShuffle,
		CursorsExpireAtOnce: f.CursorsExpireAtOnce, CursorRenews: f.CursorRenews,
		TotalMissing: f.TotalMissing, TerminatedEarly: f.TerminatedEarly,
	}
}
