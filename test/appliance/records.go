package appliance

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
)

// Record is a stored record. It must not be modified.
type Record struct {
	ID    string // may be empty
	Index string
	Type  string
	// Micros is the timestamp in microseconds since the epoch. JSON contains it in
	// milliseconds with a fraction.
	Micros int64
	// StoredAt is the time of storing, in milliseconds by the appliance's clock.
	StoredAt int64
	JSON     []byte

	seq uint64 // increases with every stored record
}

// recordStore contains the records of an appliance: stored ones, and a backlog that is
// generated when it is read.
type recordStore struct {
	sync.RWMutex
	stored  []*Record // by Micros, then seq
	history []*Record
	lastSeq uint64
	backlog backlog
	cursors map[string]*recordCursor
	rand    *rand.Rand
}

// AddRecords stores n generated records with the timestamp of now.
func (a *Appliance) AddRecords(n int) []*Record {
	a.records.Lock()
	defer a.records.Unlock()
	added := make([]*Record, n)
	for i := range added {
		// Each reads the clock, so that fractions differ.
		added[i] = a.storeRecord(a.Clock().UnixMicro(), true)
	}
	return added
}

// AddRecordsAt stores n generated records with one timestamp, in microseconds
// since the epoch: tied, or late.
func (a *Appliance) AddRecordsAt(n int, micros int64) []*Record {
	return a.addRecordsAt(n, micros, true)
}

// AddRecordsWithoutID is like AddRecordsAt for records without _id, which other record
// stores may have.
func (a *Appliance) AddRecordsWithoutID(n int, micros int64) []*Record {
	return a.addRecordsAt(n, micros, false)
}

func (a *Appliance) addRecordsAt(n int, micros int64, withID bool) []*Record {
	a.records.Lock()
	defer a.records.Unlock()
	added := make([]*Record, n)
	for i := range added {
		added[i] = a.storeRecord(micros, withID)
	}
	return added
}

// RecordHistory returns every stored record, in the order of storing, without those of a
// backlog. It is empty if Options.NoHistory is set.
func (a *Appliance) RecordHistory() []*Record {
	a.records.RLock()
	defer a.records.RUnlock()
	return slices.Clone(a.records.history)
}

// storeRecord stores a record. The store must be locked.
func (a *Appliance) storeRecord(micros int64, withID bool) *Record {
	s := &a.records
	s.lastSeq += 1 + uint64(s.rand.IntN(3)) // ids have gaps
	r := a.makeRecord(s.lastSeq, micros, withID)
	r.StoredAt = a.millis()
	at, _ := slices.BinarySearchFunc(s.stored, micros, func(r *Record, micros int64) int {
		return cmp.Or(cmp.Compare(r.Micros, micros), -1) // after those with the same timestamp
	})
	s.stored = slices.Insert(s.stored, at, r)
	if !a.options.NoHistory {
		s.history = append(s.history, r)
	}
	return r
}
