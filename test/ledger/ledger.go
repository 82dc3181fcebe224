// Package ledger checks deliveries: it compares what an appliance returned, what the bridge
// committed and what each sink received, and reports broken guarantees.
package ledger

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"ndrbridge/internal/jsonscan"
	"ndrbridge/transform"
)

// Version is a state of a detection that was visible at an appliance.
type Version struct {
	ID      int64
	ModTime int64
	Object  string // the JSON object as the appliance returns it
	// Gone marks a detection as hidden if it is set in any of its versions: its last
	// version need not be delivered.
	Gone bool
}

// Ledger records what each sink received. It is safe for concurrent use. It keeps only
// hashes of objects, so that a long run fits into memory.
type Ledger struct {
	mu        sync.Mutex
	received  map[string][]delivery            // of detections, by sink
	latest    map[string]map[int64]sum         // by sink and detection: the last object
	open      map[string]map[int64]bool        // by sink and detection, as its events say
	objects   map[route][]delivery             // of immutable objects
	events    map[string]int                   // by sink
	ids       map[string]map[identity]struct{} // by sink
	committed map[identity]struct{}            // required at every sink
}

// route is a sink and a source.
type route struct{ sink, source string }

// identity is the source and id that identify a CloudEvent.
type identity struct{ source, id string }

// delivery is an event at a sink.
type delivery struct {
	id        string
	detection int64
	object    sum
}

type sum [sha256.Size]byte

// New returns an empty ledger.
func New() *Ledger {
	return &Ledger{
		received: make(map[string][]delivery), latest: make(map[string]map[int64]sum),
		open:    make(map[string]map[int64]bool),
		objects: make(map[route][]delivery),
		events:  make(map[string]int), ids: make(map[string]map[identity]struct{}),
		committed: make(map[identity]struct{}),
	}
}

// Receive records events in the order in which they reached a sink.
func (l *Ledger) Receive(sink string, events ...transform.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ids[sink] == nil {
		l.latest[sink], l.open[sink], l.ids[sink] = make(map[int64]sum), make(map[int64]bool), make(map[identity]struct{})
	}
	for _, e := range events {
		l.events[sink]++
		l.ids[sink][identity{e.Source, e.ID}] = struct{}{}
		d := delivery{id: e.ID}
		for _, value := range jsonscan.Members(e.Data()) {
			d.object = sha256.Sum256(value) // the first member is the appliance's object
			break
		}
		switch e.Stream() {
		case transform.StreamDetections:
			// A subject that is not a number matches no detection.
			d.detection, _ = strconv.ParseInt(e.Subject, 10, 64)
			switch e.Action() {
			case "hidden", "gone":
				l.open[sink][d.detection] = false
			case "created", "updated", "shown":
				l.open[sink][d.detection] = string(jsonscan.At(e.Data(), "detection.status")) != `"closed"`
			}
			if e.IsFollowUp() {
				continue // its detection is as it is remembered
			}
			l.received[sink] = append(l.received[sink], d)
			l.latest[sink][d.detection] = d.object
		case transform.StreamAudit, transform.StreamRecords:
			at := route{sink, e.Source}
			l.objects[at] = append(l.objects[at], d)
		}
	}
}

// Received counts the events at a sink.
func (l *Ledger) Received(sink string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events[sink]
}

// Repeated counts the events at a sink whose source and id it had received before.
func (l *Ledger) Repeated(sink string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events[sink] - len(l.ids[sink])
}

// Missing returns the number of detections whose last version did not reach a sink, and one
// of them. history contains every version, those of a detection in the order of their
// creation.
func (l *Ledger) Missing(sink string, history []Version) (n int, example Version) {
	last := make(map[int64]Version)
	for _, v := range history {
		v.Gone = v.Gone || last[v.ID].Gone
		last[v.ID] = v
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, v := range last {
		if !v.Gone && l.latest[sink][id] != sha256.Sum256([]byte(v.Object)) {
			n, example = n+1, v
		}
	}
	return n, example
}

// JudgeOpen compares the detections that are open at a sink, as its events say, with those that
// are: those that the appliance shows and that are not closed.
func (l *Ledger) JudgeOpen(sink string, open map[int64]bool) (verdict Verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range open {
		if !l.open[sink][id] {
			verdict.fault("detection %d is open at the appliance only", id)
		}
	}
	for id, is := range l.open[sink] {
		if is && !open[id] {
			verdict.fault("detection %d is open at the sink only", id)
		}
	}
	return verdict
}

// Verdict is the result of checking one sink.
type Verdict struct {
	Delivered  int // events, including duplicates
	Duplicates int
	// Faults are the broken guarantees, a sentence each.
	Faults []string
}

// Judge compares what a sink received with what the appliance returned: the last version of
// every detection arrived, nothing else arrived, the versions of a detection first arrived
// in the order of their creation, and versions and ids correspond one to one.
func (l *Ledger) Judge(sink string, history []Version) Verdict {
	type version struct {
		detection int64
		index     int // in the detection's history
	}
	type shown struct { // identifies a version
		id     string
		object sum
	}
	places := make(map[shown]version)
	count := make(map[int64]int)
	for _, v := range history {
		identity := shown{fmt.Sprintf("%d-%d", v.ID, v.ModTime), sha256.Sum256([]byte(v.Object))}
		if _, known := places[identity]; !known {
			places[identity] = version{v.ID, count[v.ID]}
		}
		count[v.ID]++
	}

	var verdict Verdict
	missing, example := l.Missing(sink, history)
	if missing > 0 {
		verdict.fault("the last version of %d detections is not the last that arrived; one is %d-%d", missing, example.ID, example.ModTime)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	verdict.Delivered = len(l.received[sink])
	ids := make(map[string]version)
	versions := make(map[version]string)
	reached := make(map[int64]int) // by detection: the highest index that arrived, plus 1
	for _, d := range l.received[sink] {
		// An id is detection-mod_time, followed by -2, -3 if one mod_time has several
		// versions.
		parts := strings.SplitN(d.id, "-", 3)
		p, known := places[shown{strings.Join(parts[:min(2, len(parts))], "-"), d.object}]
		if !known {
			verdict.fault("event %s holds a version that never was", d.id)
			continue
		}
		if other, seen := ids[d.id]; seen && other != p {
			verdict.fault("event id %s stands for two versions", d.id)
		}
		if other, seen := versions[p]; seen && other != d.id {
			verdict.fault("one version came with the ids %s and %s", other, d.id)
		} else if seen {
			verdict.Duplicates++
			continue
		}
		ids[d.id], versions[p] = p, d.id
		if p.index < reached[p.detection] {
			verdict.fault("event %s came after a later version of its detection", d.id)
		}
		reached[p.detection] = max(reached[p.detection], p.index+1)
	}
	return verdict
}
