package sinks

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"ndrbridge/test/require"
)

// TestDeliveryHasTheTransitionsThatAreDrawn compares next with the diagram in
// docs/architecture.md.
func TestDeliveryHasTheTransitionsThatAreDrawn(t *testing.T) {
	got := make(map[string]bool)
	for s, outcomes := range map[deliveryState][]outcome{
		committing: {outcomePending, outcomeAllDone, outcomeNoSpace, outcomeSkipped, outcomeInterrupted},
		sending:    {outcomeSent, outcomeSomeLeft, outcomeNoneTaken, outcomeThrottled, outcomeNoLease, outcomeHalts, outcomeInterrupted},
		retrying:   {outcomeWaited, outcomeSkipped}, halted: {outcomeWaited, outcomeSkipped},
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

// drawn returns the transitions of the state diagram in a document.
func drawn(t *testing.T, path string) map[string]bool {
	t.Helper()
	document, err := os.ReadFile(path)
	require.NoError(t, err)
	_, diagram, found := strings.Cut(string(document), "stateDiagram-v2\n")
	diagram, _, ended := strings.Cut(diagram, "```")
	if !found || !ended {
		t.Fatalf("%s has no state diagram", path)
	}
	transitions := make(map[string]bool)
	for line := range strings.Lines(diagram) {
		from, rest, arrow := strings.Cut(strings.TrimSpace(line), " --> ")
		to, labels, labelled := strings.Cut(rest, ": ")
		if !arrow || !labelled { // the beginning or an end
			continue
		}
		for label := range strings.SplitSeq(labels, ", ") {
			transitions[fmt.Sprintf("%s --> %s: %s", from, to, label)] = true
		}
	}
	return transitions
}
