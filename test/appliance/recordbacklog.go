package appliance

import (
	"errors"
	"sort"
	"time"
)

// backlog is n records, evenly spread over a time. They are numbers until
// somebody looks at them.
type backlog struct {
	n           int
	first, step int64 // microseconds
}

const backlogSeq = 1 << 40 // the numbers of a backlog's records begin here

// AddRecordBacklog shows n generated records whose timestamps are spread evenly
// over the time up to now. They are made when they are looked at, take no memory,
// and are not part of the history. There is one backlog: it is an error that there
// is one already.
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

// micros is the timestamp of the record with an index. It never falls from one
// index to the next.
func (b backlog) micros(i int) int64 {
	jitter := int64(mix(uint64(i)) % uint64(max(1, b.step)))
	return b.first + int64(i)*b.step + jitter
}

// before returns how many records have a timestamp before a moment.
func (b backlog) before(micros int64) int {
	return sort.Search(b.n, func(i int) bool { return b.micros(i) >= micros })
}

func (b backlog) ref(i int) recordRef {
	return recordRef{micros: b.micros(i), seq: backlogSeq + uint64(i)}
}
