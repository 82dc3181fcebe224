package ledger

import (
	"crypto/sha256"
	"fmt"
	"time"
)

// Object is an immutable object of an appliance: an audit log entry or a record.
type Object struct {
	ID   string // of its event
	JSON string // as the appliance returns it

	// Late is the time between a record's timestamp and when it was stored: a poll may miss a
	// record that is later than windows are checked again.
	Late time.Duration
}

func (o Object) String() string {
	if o.Late > 0 {
		return fmt.Sprintf("%s, stored %s after its timestamp", o.ID, o.Late)
	}
	return o.ID
}

// MissingObjects returns the number of objects of a source that did not reach a sink, and
// one of them.
func (l *Ledger) MissingObjects(sink, source string, history []Object) (n int, example Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range history {
		if _, there := l.ids[sink][identity{source, o.ID}]; !there {
			n, example = n+1, o
		}
	}
	return n, example
}

// JudgeObjects checks that a sink received every object of a source unchanged, and nothing
// else. It does not check the order, which is not guaranteed.
func (l *Ledger) JudgeObjects(sink, source string, history []Object) Verdict {
	shown := make(map[string]sum)
	for _, o := range history {
		shown[o.ID] = sha256.Sum256([]byte(o.JSON))
	}
	var verdict Verdict
	if missing, example := l.MissingObjects(sink, source, history); missing > 0 {
		verdict.fault("%d objects of %s did not arrive; one is %s", missing, source, example)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	received := l.objects[route{sink, source}]
	verdict.Delivered = len(received)
	seen := make(map[string]struct{})
	for _, d := range received {
		if object, known := shown[d.id]; !known || object != d.object {
			verdict.fault("event %s of %s holds an object that never was", d.id, source)
			continue
		}
		if _, again := seen[d.id]; again {
			verdict.Duplicates++
			continue
		}
		seen[d.id] = struct{}{}
	}
	return verdict
}

// fault records a broken guarantee, up to a maximum number.
func (v *Verdict) fault(format string, args ...any) {
	const enough = 20
	if len(v.Faults) < enough {
		v.Faults = append(v.Faults, fmt.Sprintf(format, args...))
	}
}
