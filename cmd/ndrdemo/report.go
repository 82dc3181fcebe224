package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"ndrbridge/cmd/internal/terminal"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/ledger"
	"ndrbridge/transform"
)

// Event sources of the objects that never change.
const (
	auditSource  = "ndrbridge://hq/audit"
	recordSource = "ndrbridge://hq/records/all"
)

// arrivals records what reached each sink and compares it with what the appliance has
// shown. It is safe for concurrent use.
type arrivals struct {
	appliance *standin.Appliance
	ledger    *ledger.Ledger

	mu      sync.Mutex
	history []ledger.Version
}

func newArrivals(a *standin.Appliance) *arrivals {
	return &arrivals{appliance: a, ledger: ledger.New()}
}

// receive records an event that reached a sink, in structured mode. It keeps structured.
// Events of the bridge itself are not recorded.
func (a *arrivals) receive(sink string, structured []byte) (transform.Event, error) {
	e, err := transform.Parse(structured)
	if err == nil && e.Stream() != transform.StreamEvents {
		a.ledger.Receive(sink, e)
	}
	return e, err
}

// shown is everything that the appliance has shown up to one moment.
type shown struct {
	versions       []ledger.Version
	audit, records []ledger.Object
}

// shown returns everything that the appliance has shown up to now.
func (a *arrivals) shown() shown {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.history = append(a.history, ledger.VersionsOf(a.appliance, len(a.history))...)
	return shown{a.history, ledger.AuditEntriesOf(a.appliance), ledger.RecordsOf(a.appliance)}
}

// caughtUp reports whether every sink has received everything.
func (a *arrivals) caughtUp() bool {
	s := a.shown()
	return !slices.ContainsFunc(demoSinks[:], func(sink demoSink) bool { return missing(a.ledger, sink.name, s) > 0 })
}

// missing returns how many detections, by their latest version, entries and records have not
// reached a sink.
func missing(l *ledger.Ledger, sink string, s shown) int {
	detections, _ := l.Missing(sink, s.versions)
	entries, _ := l.MissingObjects(sink, auditSource, s.audit)
	records, _ := l.MissingObjects(sink, recordSource, s.records)
	return detections + entries + records
}

// errMissing reports that the bridge broke one of its delivery guarantees.
var errMissing = errors.New("the bridge broke a delivery guarantee")

// conclude prints the summary of a demo. It returns errMissing if a guarantee was broken.
func conclude(l *ledger.Ledger, s shown, posted chatCount, tickets ticketCount, w io.Writer) error {
	ids := make(map[int64]struct{})
	for _, v := range s.versions {
		ids[v.ID] = struct{}{}
	}
	fmt.Fprintf(w, "\nThe appliance showed %d detections in %d versions, %d audit log entries and %d records.\n\n",
		len(ids), len(s.versions), len(s.audit), len(s.records))
	fmt.Fprintf(w, "%-14s %10s %10s %10s %10s\n", "sink", "delivered", "distinct", "duplicated", "missing")
	var faults []string
	replaced := 0 // the most versions that a sink did not receive because later ones replaced them
	for _, sink := range demoSinks {
		delivered, duplicates := l.Received(sink.name), l.Repeated(sink.name)
		fmt.Fprintf(w, "%-14s %10d %10d %10d %10d\n", sink, delivered, delivered-duplicates, duplicates, missing(l, sink.name, s))
		detections := l.Judge(sink.name, s.versions)
		replaced = max(replaced, len(s.versions)-(detections.Delivered-detections.Duplicates))
		for _, v := range []ledger.Verdict{
			detections, l.JudgeObjects(sink.name, auditSource, s.audit), l.JudgeObjects(sink.name, recordSource, s.records),
		} {
			for _, fault := range v.Faults {
				faults = append(faults, fmt.Sprintf("sink %s: %s", sink.name, fault))
			}
		}
	}
	fmt.Fprintf(w, "\nThe chat received %d messages with %d cards.\n", posted.messages, posted.cards)
	fmt.Fprintf(w, "%d tickets were opened in Jira; %d detections were linked to their tickets, and %d were closed with them.\n",
		tickets.opened, tickets.linked, tickets.closed)
	switch {
	case tickets.untold != "":
		faults = append(faults, "It did not happen that "+tickets.untold+".")
	case tickets.opened > 0:
		fmt.Fprintf(w, "The first ticket was commented, closed and reopened, and %s's comment arrived in the detection's note.\n", storyteller)
	}
	if tickets.twice > 0 {
		faults = append(faults, fmt.Sprintf("%d tickets were opened for detections that already had one.", tickets.twice))
	}
	for _, fault := range faults {
		fmt.Fprintln(w, terminal.Printable(fault))
	}
	if len(faults) > 0 {
		return errMissing
	}
	if replaced > 0 {
		fmt.Fprintf(w, "Up to %d versions were replaced before the next poll could see them.\n", replaced)
	}
	fmt.Fprintln(w, "Nothing is missing: every sink has received the latest version of every detection, every entry and every record.")
	return nil
}
