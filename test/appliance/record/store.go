// Package record implements the stand-in appliance's record store: generated records, stored
// or of a backlog that is generated when it is read, and searches of them.
package record

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Options configures a store.
type Options struct {
	Seed       uint64
	Rand       *rand.Rand       // for ids and cursors; owned by the store
	Word       string           // the product's name in indexes, in lower case
	Now        func() time.Time // the appliance's clock
	NoHistory  bool             // keeps only what searches can find
	ThirdParty bool             // has no cursors and ignores context_ttl
}

// Behaviour is what varies among record stores, or goes wrong, for one request. The hazards
// of the appliance have the same fields, some with the prefix Record.
type Behaviour struct {
	LimitCap, LimitRefused, Batch            int
	UntilInclusive, WholeMillis, TiesShuffle bool
	CursorsExpireAtOnce, CursorRenews        bool
	TotalMissing, TerminatedEarly            bool
}

// cap returns the maximum number of records in the response to a request with a limit.
func (b Behaviour) cap(limit int) int {
	if b.LimitCap > 0 {
		return min(limit, b.LimitCap)
	}
	return limit
}

// Store contains records. It is safe for concurrent use.
type Store struct {
	options Options

	mu      sync.RWMutex
	stored  []*Record // by Micros, then seq
	history []*Record
	lastSeq uint64
	backlog backlog
	cursors map[string]*cursor
}

// NewStore returns an empty store.
func NewStore(o Options) *Store { return &Store{options: o, cursors: make(map[string]*cursor)} }

// Add stores n generated records. micros returns the timestamp of each, in microseconds since
// the epoch.
func (s *Store) Add(n int, micros func() int64) []*Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	added := make([]*Record, n)
	for i := range added {
		added[i] = s.add(micros())
	}
	return added
}

// add stores a record. The store must be locked.
func (s *Store) add(micros int64) *Record {
	s.lastSeq += 1 + uint64(s.options.Rand.IntN(3)) // ids have gaps
	r := s.generate(s.lastSeq, micros)
	r.StoredAt = s.options.Now().UnixMilli()
	at, _ := slices.BinarySearchFunc(s.stored, micros, func(r *Record, micros int64) int {
		return cmp.Or(cmp.Compare(r.Micros, micros), -1) // after those with the same timestamp
	})
	s.stored = slices.Insert(s.stored, at, r)
	if !s.options.NoHistory {
		s.history = append(s.history, r)
	}
	return r
}

// History returns every stored record, in the order of storing, without those of a backlog. It
// is empty if Options.NoHistory is set.
func (s *Store) History() []*Record {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.history)
}

// AddBacklog adds n records whose timestamps are spread evenly over the time up to now. They
// are generated when they are read, take no memory, and are not part of the history. It
// returns an error if there is a backlog already.
func (s *Store) AddBacklog(n int, over time.Duration) error {
	if n == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.backlog.n > 0 {
		return errors.New("there is a backlog of records already")
	}
	s.backlog = backlog{
		n:     n,
		first: s.options.Now().UnixMicro() - over.Microseconds(),
		step:  over.Microseconds() / int64(n),
	}
	return nil
}
