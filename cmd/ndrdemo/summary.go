package main

import (
	"errors"
	"fmt"
	"io"

	"ndrbridge/test/ledger"
)

// errMissing reports that the bridge broke one of its delivery guarantees.
var errMissing = errors.New("the bridge broke a delivery guarantee")

// conclude prints the summary of a demo. It returns errMissing if a guarantee was broken.
func conclude(l *ledger.Ledger, shown exhibit, posted chatCount, opened ticketCount, stdout io.Writer) error {
	s := judge(l, shown)
	s.posted, s.tickets = posted, opened
	s.print(stdout)
	if !s.good() {
		return errMissing
	}
	return nil
}

// summary is the result of a demo.
type summary struct {
	detections, versions, entries, records int // that the appliance showed
	sinks                                  []sinkSummary
	posted                                 chatCount
	tickets                                ticketCount
}

// sinkSummary is the result of one sink.
type sinkSummary struct {
	demoSink
	ledger.Verdict
	missing  int // detections (by their latest version), entries and records
	distinct int // versions of detections
}

// judge compares what each sink received with what the appliance showed.
func judge(l *ledger.Ledger, shown exhibit) summary {
	s := summary{
		detections: countDetections(shown.versions), versions: len(shown.versions),
		entries: len(shown.audit), records: len(shown.records),
	}
	for _, o := range demoSinks {
		sink := sinkSummary{demoSink: o, missing: shown.waiting(l, o.name)}
		detections := l.Judge(o.name, shown.versions)
		sink.distinct = detections.Delivered - detections.Duplicates
		for _, v := range []ledger.Verdict{
			detections,
			l.JudgeObjects(o.name, auditSource, shown.audit),
			l.JudgeObjects(o.name, recordSource, shown.records),
		} {
			sink.Delivered += v.Delivered
			sink.Duplicates += v.Duplicates
			sink.Faults = append(sink.Faults, v.Faults...)
		}
		s.sinks = append(s.sinks, sink)
	}
	return s
}

func countDetections(versions []ledger.Version) int {
	ids := make(map[int64]struct{})
	for _, v := range versions {
		ids[v.ID] = struct{}{}
	}
	return len(ids)
}

// good reports whether every guarantee was kept.
func (s summary) good() bool {
	for _, sink := range s.sinks {
		if len(sink.Faults) > 0 {
			return false
		}
	}
	return s.tickets.twice == 0
}

// print writes the summary for a person.
func (s summary) print(w io.Writer) {
	fmt.Fprintf(w, "\nThe appliance showed %d detections in %d versions, %d audit log entries and %d records.\n\n",
		s.detections, s.versions, s.entries, s.records)
	fmt.Fprintf(w, "%-14s %10s %10s %10s %10s\n", "sink", "delivered", "distinct", "duplicated", "missing")
	replaced := 0
	for _, sink := range s.sinks {
		replaced = max(replaced, s.versions-sink.distinct)
		fmt.Fprintf(w, "%-14s %10d %10d %10d %10d\n", sink.demoSink, sink.Delivered, sink.Delivered-sink.Duplicates, sink.Duplicates, sink.missing)
	}
	fmt.Fprintf(w, "\nThe chat received %d messages with %d cards.\n", s.posted.messages, s.posted.cards)
	fmt.Fprintf(w, "%d tickets were opened in Jira; %d detections were linked to their tickets, and %d were closed with them.\n",
		s.tickets.opened, s.tickets.linked, s.tickets.closed)
	if !s.good() {
		if s.tickets.twice > 0 {
			fmt.Fprintf(w, "%d tickets were opened for detections that already had one.\n", s.tickets.twice)
		}
		for _, sink := range s.sinks {
			for _, fault := range sink.Faults {
				fmt.Fprintf(w, "sink %s: %s\n", sink.name, printable(fault))
			}
		}
		return
	}
	if replaced > 0 {
		fmt.Fprintf(w, "Up to %d versions were replaced before the next poll could see them.\n", replaced)
	}
	fmt.Fprintln(w, "Nothing is missing: every sink has received the latest version of every detection, every entry and every record.")
}
