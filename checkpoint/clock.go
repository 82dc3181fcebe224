package checkpoint

import (
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"ndrbridge/checkpoint/internal/boltfile"
)

// Events carry the time of a clock that may be set while they are in the journal.
// Their ages must not change with it: Limits.Retain and a lag policy would trim or skip
// young events, or never old ones. So a store that finds that the clock was set
// remembers by how much, and corrects the times recorded before. The events themselves
// do not change.

const (
	// stepLeast is the smallest difference between the clock and the elapsed time that
	// counts as the clock having been set.
	stepLeast = time.Minute
	// aheadMost is how far behind the latest event the clock may be before that event
	// counts as recorded by a clock that was ahead.
	aheadMost = time.Hour
	// maxCorrections is how many corrections are kept, the latest ones: their bucket must
	// stay small.
	maxCorrections = 32
)

// clock compares the system's clock with the elapsed time.
type clock struct {
	now     func() time.Time
	elapsed func() time.Duration // nil: as by now

	mu    sync.Mutex
	began time.Duration // elapsed time when now returned at
	at    time.Time
}

func newClock(o Options) *clock {
	c := &clock{now: o.Now, elapsed: o.Elapsed}
	if c.now == nil {
		c.now = time.Now
		if start := time.Now(); c.elapsed == nil {
			c.elapsed = func() time.Duration { return time.Since(start) }
		}
	}
	c.resync()
	return c
}

// resync takes the clock as correct from now on.
func (c *clock) resync() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.now().Round(0) // without its monotonic reading
	if c.elapsed != nil {
		c.began = c.elapsed()
	}
}

// step returns by how much the clock was set forward since resync, or 0 if it was not set.
func (c *clock) step() time.Duration {
	if c.elapsed == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	step := c.now().Round(0).Sub(c.at) - (c.elapsed() - c.began)
	if step.Abs() < stepLeast {
		return 0
	}
	return step
}

// correction corrects the recorded times of the events up to one. All values are in
// milliseconds.
type correction struct {
	last uint64 // sequence number of the last of these events
	by   int64  // by how much the clock was set forward
	at   int64  // upper bound of their recorded times, by the clock after it was set
}

const correctionSize = 24 // bytes in the file

// correctionsOf reads the corrections, in the order in which they were made.
func correctionsOf(tx *bolt.Tx) []correction {
	value := tx.Bucket(boltfile.MetaBucket).Get(clockKey)
	var all []correction
	for ; len(value) >= correctionSize; value = value[correctionSize:] {
		n := decode(value)
		all = append(all, correction{last: n[0], by: int64(n[1]), at: int64(n[2])})
	}
	return all
}

// putCorrections writes the latest corrections of events from first on.
func putCorrections(tx *boltfile.Tx, all []correction, first uint64) {
	for len(all) > maxCorrections || len(all) > 0 && all[0].last < first {
		all = all[1:]
	}
	value := []byte{}
	for _, c := range all {
		value = append(value, encode(c.last, uint64(c.by), uint64(c.at))...)
	}
	tx.Table(boltfile.MetaBucket).Put(clockKey, value)
}

// recordedBy returns when an event was recorded by the clock as it is now, given the
// recorded time by the clock as it was then.
func (j *journal) recordedBy(seq uint64, recorded int64) int64 {
	for _, c := range j.corrections {
		if seq <= c.last {
			recorded = min(recorded+c.by, c.at)
		}
	}
	return recorded
}

// correct adds a correction if the clock was set, and reports whether it did. It changes
// nothing in the file.
func (j *journal) correct(c *clock) bool {
	step, now := c.step().Milliseconds(), c.now().UnixMilli()
	if j.empty() || step == 0 && j.recorded <= now+aheadMost.Milliseconds() {
		return false
	}
	j.corrections = append(j.corrections, correction{last: j.last, by: step, at: now})
	j.recorded = min(j.recorded+step, now)
	return true
}
