package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"ndrbridge/admin"
	"ndrbridge/cmd/internal/terminal"
)

// printStatus prints a status for a person.
func (c *command) printStatus(s admin.Status, now time.Time) {
	if s.Running {
		fmt.Fprintf(c.stdout, "ndrbridge %s, running for %s\n", terminal.Printable(s.Version), terminal.Duration(now.Sub(s.Started)))
	} else {
		fmt.Fprintln(c.stdout, "ndrbridge is not running; this is the status in its state file")
	}
	fmt.Fprintf(c.stdout, "state    %s, %s\n", terminal.Printable(s.State.Path), terminal.Bytes(s.State.FileBytes))
	fmt.Fprintf(c.stdout, "journal  %s\n\n", journalText(s.State.Journal))

	if s.Running {
		appliancesTable(s.Appliances, now).Print(c.stdout, c.width(), c.colours())
		fmt.Fprintln(c.stdout)
	}
	streamsTable(s, now).Print(c.stdout, c.width(), c.colours())
	fmt.Fprintln(c.stdout)
	sinksTable(s, now).Print(c.stdout, c.width(), c.colours())
	if len(s.Intakes) > 0 {
		fmt.Fprintln(c.stdout)
		intakesTable(s.Intakes, now).Print(c.stdout, c.width(), c.colours())
	}
	if lines := advice(s); len(lines) > 0 {
		fmt.Fprintln(c.stdout, "\nWhat to do:")
		for _, line := range lines {
			fmt.Fprintln(c.stdout, "  "+terminal.Printable(line))
		}
	}
}

func journalText(j admin.Journal) string {
	text := fmt.Sprintf("%s, %s", terminal.Count(j.Events, "event"), terminal.Bytes(j.Bytes))
	if j.MaxBytes > 0 {
		text += fmt.Sprintf(" of %s", terminal.Bytes(j.MaxBytes))
	}
	if j.Full {
		text += ", full: polling is paused"
	}
	return text
}

func appliancesTable(appliances []admin.ApplianceStatus, now time.Time) *terminal.Table {
	t := terminal.NewTable("APPLIANCE", "STATE", "SINCE", "FIRMWARE", "NOTE")
	for _, a := range appliances {
		state := terminal.Cell{Text: "-"}
		switch {
		case a.Reachable == nil:
		case *a.Reachable:
			state = terminal.Green.Cell("reachable")
		default:
			state = terminal.Red.Cell("unreachable")
		}
		t.Add(a.Name, state, terminal.Ago(a.Since, now), cmp.Or(a.Firmware, "-"), terminal.Yellow.Cell(applianceNote(a)))
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
		return "its clock is " + terminal.Seconds(skew) + " ahead"
	case skew < -tolerance:
		return "its clock is " + terminal.Seconds(-skew) + " behind"
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

func streamsTable(status admin.Status, now time.Time) *terminal.Table {
	t := terminal.NewTable("APPLIANCE", "STREAM", "POLLED", "READ TO", "LAG", "RATE", "FAILED", "DEAD", "NOTE")
	for _, a := range status.Appliances {
		clock := now.Add(time.Duration(skewOf(a) * float64(time.Second)))
		for _, s := range a.Streams {
			failures := terminal.Cell{Text: fmt.Sprint(s.Failures)}
			if s.Failures > 0 {
				failures.Colour = terminal.Red
			}
			lag := "-"
			if s.LagSeconds != nil {
				lag = terminal.Seconds(*s.LagSeconds)
			}
			t.Add(a.Name, s.Stream, terminal.Ago(s.LastSuccess, now), terminal.Ago(s.Position, clock), lag, terminal.Rate(s.EventsPerSecond, status.Running),
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
		b.At.UTC().Format(time.RFC3339), terminal.Seconds(b.BehindSeconds), b.EventsPerSecond)
	if b.LeftSeconds > 0 {
		text += fmt.Sprintf(", %s left", terminal.Seconds(b.LeftSeconds))
	}
	return text
}

func sinksTable(status admin.Status, now time.Time) *terminal.Table {
	t := terminal.NewTable("SINK", "KIND", "STATE", "SINCE", "LAG", "BYTES", "OLDEST", "RATE", "DEAD", "REDELIVER", "SKIPPED", "NOTE")
	for _, s := range status.Sinks {
		addSink(t, s, stateCell(s.State), terminal.Rate(s.EventsPerSecond, status.Running), now)
	}
	for _, s := range status.Unconfigured {
		addSink(t, s, terminal.Yellow.Cell("not configured"), "-", now)
	}
	return t
}

func addSink(t *terminal.Table, s admin.SinkStatus, state terminal.Cell, rate string, now time.Time) {
	var notes []string
	if s.FillsJournalInSeconds > 0 {
		notes = append(notes, "fills the journal in "+terminal.Seconds(s.FillsJournalInSeconds))
	}
	if s.OverLag {
		notes = append(notes, "exceeds its lag limit")
	}
	t.Add(s.Name, cmp.Or(s.Kind, "-"), state, terminal.Ago(s.Since, now), s.LagEvents, terminal.Bytes(s.LagBytes), terminal.Ago(s.Oldest, now), rate,
		deadCell(s.DeadLetters), s.Redeliveries, s.Skipped, terminal.Yellow.Cell(strings.Join(notes, "; ")))
}

func intakesTable(intakes []admin.IntakeStatus, now time.Time) *terminal.Table {
	t := terminal.NewTable("TICKETS FROM", "STATE", "SINCE", "STORED", "REFUSED")
	for _, d := range intakes {
		t.Add(d.Intake, stateCell(d.State), terminal.Ago(d.Since, now), d.Stored, deadCell(d.Refused))
	}
	return t
}

func stateCell(state string) terminal.Cell {
	switch state {
	case "":
		return terminal.Cell{Text: "-"}
	case "running":
		return terminal.Green.Cell(state)
	case "paused":
		return terminal.Cyan.Cell(state)
	case "halted":
		return terminal.Red.Cell(state)
	default:
		return terminal.Yellow.Cell(state)
	}
}

func deadCell(n uint64) terminal.Cell {
	c := terminal.Cell{Text: fmt.Sprint(n)}
	if n > 0 {
		c.Colour = terminal.Yellow
	}
	return c
}
