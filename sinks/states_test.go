package sinks

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestDeliveryHasTheTransitionsThatAreDrawn compares next with the diagram in
// docs/architecture.md.
func TestDeliveryHasTheTransitionsThatAreDrawn(t *testing.T) {
	ofCommitting := []outcome{outcomePending, outcomeKeepsFailing, outcomeQuarantined, outcomeRejectsEverything, outcomeAllDone, outcomeSkipped, outcomeInterrupted}
	ofAttempts := []outcome{outcomeSent, outcomeSomeFailed, outcomeFailed, outcomeThrottled, outcomeNoLease, outcomeHalts, outcomeInterrupted}
	ofProbing := []outcome{outcomeSent, outcomeNoLease, outcomeHalts, outcomeInterrupted}
	ofCalls := append([]outcome{outcomeMore, outcomeRejectedAsAWhole}, ofAttempts...)
	got := make(map[string]bool)
	for s, outcomes := range map[deliveryState][]outcome{
		committing: ofCommitting, sending: ofCalls, bisecting: ofCalls,
		isolating: ofAttempts, quarantining: ofAttempts, probing: ofProbing,
		retrying: {outcomeWaited, outcomeSkipped}, halted: {outcomeWaited, outcomeSkipped},
	} {
		for _, o := range outcomes {
			got[fmt.Sprintf("%s --> %s: %s", s, s.next(o), o)] = true
		}
	}
	want := drawn(t, "../docs/architecture.md")
	for _, transition := range slices.Sorted(maps.Keys(got)) {
		if !want[transition] {
			t.Errorf("not drawn: %s", transition)
		}
	}
	for _, transition := range slices.Sorted(maps.Keys(want)) {
		if !got[transition] {
			t.Errorf("drawn, but does not exist: %s", transition)
		}
	}
}

// drawn returns the transitions of the state diagram in a document. Those of a group
// of states are those of each of its states.
func drawn(t *testing.T, path string) map[string]bool {
	t.Helper()
	document, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, diagram, found := strings.Cut(string(document), "stateDiagram-v2\n")
	diagram, _, ended := strings.Cut(diagram, "```")
	if !found || !ended {
		t.Fatalf("%s has no state diagram", path)
	}
	group, members := "", make(map[string][]string)
	transitions := make(map[string]bool)
	for line := range strings.Lines(diagram) {
		line = strings.TrimSpace(line)
		from, rest, arrow := strings.Cut(line, " --> ")
		switch {
		case strings.HasSuffix(line, "{"):
			group = strings.Fields(line)[1]
			continue
		case line == "}":
			group = ""
			continue
		}
		if group != "" && !slices.Contains(members[group], from) {
			members[group] = append(members[group], from)
		}
		to, labels, labelled := strings.Cut(rest, ": ")
		if !arrow || !labelled { // a state alone, the beginning or an end
			continue
		}
		all := members[from]
		if all == nil {
			all = []string{from}
		}
		if group != "" && !slices.Contains(members[group], to) {
			members[group] = append(members[group], to)
		}
		for _, from := range all {
			for label := range strings.SplitSeq(labels, ", ") {
				transitions[fmt.Sprintf("%s --> %s: %s", from, to, label)] = true
			}
		}
	}
	return transitions
}
