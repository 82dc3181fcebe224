package checkpoint

import (
	"slices"

	"ndrbridge/transform"
)

// tailBytes is how many bytes of events a tail keeps: about two full pages of detections.
const tailBytes = 4 << 20

// tail keeps the end of the journal in memory, the events committed last, for sinks that
// keep up. It holds only events that are in the file or were trimmed from it.
type tail struct {
	limit   int      // in bytes
	records []Record // with consecutive sequence numbers
	bytes   int      // of their events
}

// append adds committed events, the last of which has the number last, and drops the
// oldest ones beyond the limit.
func (t *tail) append(rounds [][]transform.Event, last uint64) {
	seq := last + 1
	for _, events := range rounds {
		seq -= uint64(len(events))
	}
	for _, events := range rounds {
		for _, e := range events {
			t.records = append(t.records, Record{Seq: seq, Event: e})
			t.bytes += len(e.Structured())
			seq++
		}
	}
	old := 0
	for ; t.bytes > t.limit; old++ {
		t.bytes -= len(t.records[old].Event.Structured())
	}
	clear(t.records[:old])
	t.records = t.records[old:]
}

// drop drops all events.
func (t *tail) drop() { t.records, t.bytes = nil, 0 }

// read returns events after a number as Journal.Read does, or none if the first of them is
// not in the tail.
func (t *tail) read(after uint64, max Batch) []Record {
	if len(t.records) == 0 || after+1 < t.records[0].Seq || after >= t.records[len(t.records)-1].Seq {
		return nil
	}
	records := t.records[after+1-t.records[0].Seq:]
	n, size := 0, 0
	for n < len(records) && max.admits(n, size, len(records[n].Event.Structured())) {
		size += len(records[n].Event.Structured())
		n++
	}
	return slices.Clone(records[:n])
}

// admits reports whether a batch of so many events and bytes may take one more of next
// bytes.
func (b Batch) admits(events, bytes, next int) bool {
	return events == 0 || (b.MaxEvents <= 0 || events < b.MaxEvents) && (b.MaxBytes <= 0 || bytes+next <= b.MaxBytes)
}
