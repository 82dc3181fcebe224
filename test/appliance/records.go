package appliance

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
)

// Record is one record that a record store showed. It is not to be modified.
type Record struct {
	ID    string // empty: it has none
	Index string
	Type  string
	// Micros is its timestamp in microseconds since the epoch: JSON has it in
	// milliseconds with a fraction.
	Micros int64
	// StoredAt is when it became visible, in milliseconds by the appliance's clock.
	StoredAt int64
	JSON     []byte

	seq uint64 // rises with every record that is stored
}

// recordStore holds the records of an appliance: those that were stored one by
// one, and a backlog that is made when it is looked at.
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
		// Each has a look at the clock, so that fractions differ.
		added[i] = a.storeRecord(a.Clock().UnixMicro(), true)
	}
	return added
}

// AddRecordsAt stores n generated records with one timestamp, in microseconds
// since the epoch: tied, or late.
func (a *Appliance) AddRecordsAt(n int, micros int64) []*Record {
	return a.addRecordsAt(n, micros, true)
}

// AddRecordsWithoutID is AddRecordsAt for records that have no _id, as those of
// other record stores can be.
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

// RecordHistory returns every record that was stored, in the order in which they
// were. It is empty under NoHistory, and holds nothing of a backlog.
func (a *Appliance) RecordHistory() []*Record {
	a.records.RLock()
	defer a.records.RUnlock()
	return slices.Clone(a.records.history)
}

// storeRecord stores a record, with the store locked.
func (a *Appliance) storeRecord(micros int64, withID bool) *Record {
	s := &a.records
	s.lastSeq += 1 + uint64(s.rand.IntN(3)) // ids have holes
	r := a.makeRecord(s.lastSeq, micros, withID)
	r.StoredAt = a.millis()
	at, _ := slices.BinarySearchFunc(s.stored, micros, func(r *Record, micros int64) int {
		return cmp.Or(cmp.Compare(r.Micros, micros), -1) // behind those with the same
	})
	s.stored = slices.Insert(s.stored, at, r)
	if !a.options.NoHistory {
		s.history = append(s.history, r)
	}
	return r
}
