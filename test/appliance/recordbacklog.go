package appliance

import (
	"errors"
	"sort"
	"time"
)

// backlog is a set of n records, evenly spread over a time range. A record is generated
// when it is read.
type backlog struct {
	n           int
	first, step int64 // microseconds
}

const backlogSeq = 1 << 40 // the first number of a backlog's records

// AddRecordBacklog adds n records whose timestamps are spread evenly over the time up to
// now. They are generated when they are read, take no memory, and are not part of the
// history. It returns an error if there is a backlog already.
func (a *Appliance) AddRecordBacklog(n int, over time.Duration) error {
	if n == 0 {
		return nil
	}
	a.records.Lock()
	defer a.records.Unlock()
	if a.records.backlog.n > 0 {
		return errors.New("there is a backlog of records already")
	}
	a.records.backlog = backlog{
		n:     n,
		first: a.Clock().UnixMicro() - over.Microseconds(),
		step:  over.Microseconds() / int64(n),
	}
	return nil
}

// micros returns the timestamp of the record with an index. It never decreases.
func (b backlog) micros(i int) int64 {
	jitter := int64(mix(uint64(i)) % uint64(max(1, b.step)))
	return b.first + int64(i)*b.step + jitter
}

// before returns the number of records with a timestamp before a given one.
func (b backlog) before(micros int64) int {
	return sort.Search(b.n, func(i int) bool { return b.micros(i) >= micros })
}

func (b backlog) ref(i int) recordRef {
	return recordRef{micros: b.micros(i), seq: backlogSeq + uint64(i)}
}
