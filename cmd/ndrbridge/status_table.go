package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"ndrbridge/admin"
)

// printStatus prints a status for a person.
func (c *command) printStatus(s admin.Status, now time.Time) {
	if s.Running {
		fmt.Fprintf(c.stdout, "ndrbridge %s, running for %s\n", printable(s.Version), durationText(now.Sub(s.Started)))
	} else {
		fmt.Fprintln(c.stdout, "ndrbridge is not running; this is the status in its state file")
	}
	fmt.Fprintf(c.stdout, "state    %s, %s\n", printable(s.State.Path), bytesText(s.State.FileBytes))
	fmt.Fprintf(c.stdout, "journal  %s\n\n", journalText(s.State.Journal))

	if s.Running {
		appliancesTable(s.Appliances, now).print(c.stdout, c.width(), c.colours())
		fmt.Fprintln(c.stdout)
	}
	streamsTable(s, now).print(c.stdout, c.width(), c.colours())
	fmt.Fprintln(c.stdout)
	sinksTable(s, now).print(c.stdout, c.width(), c.colours())
	if len(s.Intakes) > 0 {
		fmt.Fprintln(c.stdout)
		intakesTable(s.Intakes, now).print(c.stdout, c.width(), c.colours())
	}
	if lines := advice(s); len(lines) > 0 {
		fmt.Fprintln(c.stdout, "\nWhat to do:")
		for _, line := range lines {
			fmt.Fprintln(c.stdout, "  "+printable(line))
		}
	}
}

func journalText(j admin.Journal) string {
	text := fmt.Sprintf("%s, %s", counted(j.Events, "event"), bytesText(j.Bytes))
	if j.MaxBytes > 0 {
		text += fmt.Sprintf(" of %s", bytesText(j.MaxBytes))
	}
	if j.Full {
		text += ", full: polling is paused"
	}
	return text
}

func appliancesTable(appliances []admin.ApplianceStatus, now time.Time) *table {
	t := newTable("APPLIANCE", "STATE", "SINCE", "FIRMWARE", "NOTE")
	for _, a := range appliances {
		state := cell{text: "-"}
		switch {
		case a.Reachable == nil:
		case *a.Reachable:
			state = cell{"reachable", green}
		default:
			state = cell{"unreachable", red}
		}
		t.add(a.Name, state, ago(a.Since, now), cmp.Or(a.Firmware, "-"), cell{applianceNote(a), yellow})
	}
	return t
}

// applianceNote returns what is unusual about an appliance that can be polled.
func applianceNote(a admin.ApplianceStatus) string {
	notes := []string{clockText(a)}
	if a.Replaced != nil {
		notes = append(notes, "a different appliance answers")
	}
	return strings.Join(slices.DeleteFunc(notes, func(note string) bool { return note == "" }), "; ")
}

// clockText returns how far an appliance's clock is off, or "" if it is off by no more
// than a synchronized clock may be.
func clockText(a admin.ApplianceStatus) string {
	const tolerance = 5 // seconds
	switch skew := skewOf(a); {
	case skew > tolerance:
		return "its clock is " + secondsText(skew) + " ahead"
	case skew < -tolerance:
		return "its clock is " + secondsText(-skew) + " behind"
	}
	return ""
}

// skewOf returns how many seconds an appliance's clock is ahead, or 0 if that is unknown.
func skewOf(a admin.ApplianceStatus) float64 {
	if a.ClockSkewSeconds == nil {
		return 0
	}
	return *a.ClockSkewSeconds
}

func streamsTable(status admin.Status, now time.Time) *table {
	t := newTable("APPLIANCE", "STREAM", "POLLED", "READ TO", "LAG", "RATE", "FAILED", "DEAD", "NOTE")
	for _, a := range status.Appliances {
		clock := now.Add(time.Duration(skewOf(a) * float64(time.Second)))
		for _, s := range a.Streams {
			failures := cell{text: fmt.Sprint(s.Failures)}
			if s.Failures > 0 {
				failures.colour = red
			}
			lag := "-"
			if s.LagSeconds != nil {
				lag = secondsText(*s.LagSeconds)
			}
			t.add(a.Name, s.Stream, ago(s.LastSuccess, now), ago(s.Position, clock), lag, rateText(s.EventsPerSecond, status.Running),
				failures, deadCell(s.DeadLetters), backlogText(s.Backlog))
		}
	}
	return t
}

func backlogText(b *admin.Backlog) string {
	if b == nil {
		return ""
	}
	text := fmt.Sprintf("reading a backlog, at %s: %s behind, %.0f/s",
		b.At.UTC().Format(time.RFC3339), secondsText(b.BehindSeconds), b.EventsPerSecond)
	if b.LeftSeconds > 0 {
		text += fmt.Sprintf(", %s left", secondsText(b.LeftSeconds))
	}
	return text
}

func sinksTable(status admin.Status, now time.Time) *table {
	t := newTable("SINK", "KIND", "STATE", "SINCE", "LAG", "BYTES", "OLDEST", "RATE", "DEAD", "REDELIVER", "SKIPPED", "NOTE")
	for _, s := range status.Sinks {
		addSink(t, s, stateCell(s.State), rateText(s.EventsPerSecond, status.Running), now)
	}
	for _, s := range status.Unconfigured {
		addSink(t, s, cell{"not configured", yellow}, "-", now)
	}
	return t
}

func addSink(t *table, s admin.SinkStatus, state cell, rate string, now time.Time) {
	var notes []string
	if s.FillsJournalInSeconds > 0 {
		notes = append(notes, "fills the journal in "+secondsText(s.FillsJournalInSeconds))
	}
	if s.OverLag {
		notes = append(notes, "exceeds its lag limit")
	}
	t.add(s.Name, cmp.Or(s.Kind, "-"), state, ago(s.Since, now), s.LagEvents, bytesText(s.LagBytes), ago(s.Oldest, now), rate,
		deadCell(s.DeadLetters), s.Redeliveries, s.Skipped, cell{strings.Join(notes, "; "), yellow})
}

func intakesTable(intakes []admin.IntakeStatus, now time.Time) *table {
	t := newTable("TICKETS FROM", "STATE", "SINCE", "STORED", "REFUSED")
	for _, d := range intakes {
		t.add(d.Intake, stateCell(d.State), ago(d.Since, now), d.Stored, deadCell(d.Refused))
	}
	return t
}

func stateCell(state string) cell {
	switch state {
	case "":
		return cell{text: "-"}
	case "running":
		return cell{state, green}
	case "paused":
		return cell{state, cyan}
	case "halted":
		return cell{state, red}
	default:
		return cell{state, yellow}
	}
}

func deadCell(n uint64) cell {
	c := cell{text: fmt.Sprint(n)}
	if n > 0 {
		c.colour = yellow
	}
	return c
}
