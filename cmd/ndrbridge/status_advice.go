package main

import (
	"fmt"

	"ndrbridge/admin"
	"ndrbridge/cmd/internal/terminal"
)

// advice returns what to do about the problems in a status, one line each.
func advice(s admin.Status) []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if !s.Running {
		add("start the bridge with: ndrbridge run")
	}
	if s.State.Journal.Full {
		add("the journal is full, and polling is paused: fix %s, set its lag.policy to skip, or raise journal.max_bytes", slowest(s.Sinks))
	}
	for _, a := range s.Appliances {
		reached := a.Reachable == nil || *a.Reachable
		if !reached {
			add("%s cannot be polled and is retried; no data is lost while the appliance retains it: %s", a.Name, a.Error)
		}
		if text := clockText(a); text != "" {
			add("%s: %s: synchronize both clocks with NTP; no data is lost, but timestamps do not match", a.Name, text)
		}
		if r := a.Replaced; r != nil {
			add("a different appliance seems to answer under the name %[1]s (%[2]s): give it another name in the configuration, or delete the state of the old one with ndrbridge state forget --appliance %[1]s; if it is the same appliance: ndrbridge state forget --appliance %[1]s --identity", a.Name, r.Reason)
		}
		for _, stream := range a.Streams {
			if stream.Failures > 0 && reached {
				add("%s/%s fails and is retried: %s", a.Name, stream.Stream, stream.Error)
			}
			if stream.DeadLettersDropped > 0 {
				add("%s/%s: %d dead letters were dropped for newer ones: read those objects again with ndrbridge rewind, or raise dead_letters.max_bytes",
					a.Name, stream.Stream, stream.DeadLettersDropped)
			}
			if stream.DeadLetters > 0 {
				add("%[1]s/%[2]s has dead letters: see which objects could not be converted with ndrbridge dead list %[1]s/%[2]s", a.Name, stream.Stream)
			}
		}
	}
	for _, a := range s.Appliances {
		if a.Tickets != nil && a.Tickets.Error != "" {
			add("ticket changes are not written to %s (%s); their commands are kept: %s", a.Name, a.Tickets.State, a.Tickets.Error)
		}
	}
	for _, d := range s.Intakes {
		if d.Error != "" {
			add("ticket commands from %s are not received and stay there: %s", d.Intake, d.Error)
		}
	}
	for _, sink := range s.Sinks {
		adviseSink(sink, add)
	}
	for _, sink := range s.Unconfigured {
		first := ""
		if s.Running {
			first = "stop the bridge and "
		}
		add("%[1]s is not configured: %[2]sdelete its state with ndrbridge state forget %[1]s, or rename it with ndrbridge state rename %[1]s NEW", sink.Name, first)
	}
	return lines
}

func adviseSink(s admin.SinkStatus, add func(format string, args ...any)) {
	switch s.State {
	case "retrying":
		add("%s fails and is retried: %s", s.Name, s.Error)
	case "halted":
		add("%[1]s is halted until this is fixed: %[2]s", s.Name, s.Error)
		add("%[1]s is retried automatically, or immediately with: ndrbridge resume %[1]s", s.Name)
	case "paused":
		add("%[1]s is paused: resume it with ndrbridge resume %[1]s", s.Name)
	}
	if s.OverLag {
		add("%s exceeds its lag limit: find out why it is slow, or change its lag", s.Name)
	}
	if s.DeadLetters == 0 {
		return
	}
	add("%[1]s has dead letters: see why with ndrbridge dead list %[1]s, then requeue or drop them", s.Name)
	const nearly = 0.8
	if s.DeadLetterMaxBytes > 0 && float64(s.DeadLetterBytes) >= nearly*float64(s.DeadLetterMaxBytes) {
		add("%s: its dead letters use %s of %s; the sink halts when they are full", s.Name, terminal.Bytes(s.DeadLetterBytes), terminal.Bytes(s.DeadLetterMaxBytes))
	}
}

// slowest returns the name of the sink with the most undelivered bytes in the journal.
func slowest(sinks []admin.SinkStatus) string {
	name, most := "the sinks", int64(0)
	for _, s := range sinks {
		if s.LagBytes > most {
			name, most = s.Name, s.LagBytes
		}
	}
	return name
}
