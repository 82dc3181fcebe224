package main

import (
	"fmt"

	"ndrbridge/admin"
)

// advice is what to do about what is wrong, a line each.
func advice(s admin.Status) []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if !s.Running {
		add("start the bridge with: ndrbridge run")
	}
	if s.State.Journal.Full {
		add("the journal is full, and polling waits: fix %s, give it lag.policy skip, or raise journal.max_bytes", slowest(s.Sinks))
	}
	for _, a := range s.Appliances {
		reached := a.Reachable == nil || *a.Reachable
		if !reached {
			add("%s cannot be polled, and is tried again; nothing is lost that it still shows then: %s", a.Name, a.Error)
		}
		if text := clockText(a); text != "" {
			add("%s: %s: set it, or ours, by NTP; nothing is lost by it, but times will not match", a.Name, text)
		}
		if r := a.Replaced; r != nil {
			add("another appliance seems to answer under the name %[1]s (%[2]s): give it a name of its own in the configuration, or forget the other with ndrbridge state forget --appliance %[1]s; if it is the same machine: ndrbridge state forget --appliance %[1]s --identity", a.Name, r.Reason)
		}
		for _, stream := range a.Streams {
			if stream.Failures > 0 && reached {
				add("%s/%s fails, and is tried again: %s", a.Name, stream.Stream, stream.Error)
			}
			if stream.DeadLettersDropped > 0 {
				add("%s/%s: %d dead letters gave way to newer ones: read those objects again with ndrbridge rewind, or raise dead_letters.max_bytes",
					a.Name, stream.Stream, stream.DeadLettersDropped)
			}
			if stream.DeadLetters > 0 {
				add("%[1]s/%[2]s: see what could not be made into events with: ndrbridge dead list %[1]s/%[2]s", a.Name, stream.Stream)
			}
		}
	}
	for _, a := range s.Appliances {
		if a.Tickets != nil && a.Tickets.Error != "" {
			add("tickets are not written to %s (%s), and their commands are kept: %s", a.Name, a.Tickets.State, a.Tickets.Error)
		}
	}
	for _, d := range s.Intakes {
		if d.Error != "" {
			add("ticket commands from %s are not received, and wait there: %s", d.Intake, d.Error)
		}
	}
	for _, sink := range s.Sinks {
		adviseSink(sink, add)
	}
	for _, sink := range s.Unconfigured {
		first := ""
		if s.Running {
			first = "stop the bridge, and "
		}
		add("%[1]s is not configured: %[2]sdrop what the state keeps of it with ndrbridge state forget %[1]s, or move it with ndrbridge state rename %[1]s NEW", sink.Name, first)
	}
	return lines
}

func adviseSink(s admin.SinkStatus, add func(format string, args ...any)) {
	switch s.State {
	case "retrying":
		add("%s fails, and is tried again: %s", s.Name, s.Error)
	case "halted":
		add("%[1]s is halted until this is fixed: %[2]s", s.Name, s.Error)
		add("%[1]s is tried again by itself, or at once with: ndrbridge resume %[1]s", s.Name)
	case "paused":
		add("%[1]s is paused: go on with: ndrbridge resume %[1]s", s.Name)
	}
	if s.OverLag {
		add("%s is over its lag budget: see why it is slow, or change its lag", s.Name)
	}
	if s.DeadLetters == 0 {
		return
	}
	add("%[1]s has dead letters: see why with ndrbridge dead list %[1]s, then requeue or drop them", s.Name)
	const nearly = 0.8
	if s.DeadLetterMaxBytes > 0 && float64(s.DeadLetterBytes) >= nearly*float64(s.DeadLetterMaxBytes) {
		add("%s: its dead letters take %s of %s; when they are full, it halts", s.Name, bytesText(s.DeadLetterBytes), bytesText(s.DeadLetterMaxBytes))
	}
}

// slowest names the sink that holds the most of the journal.
func slowest(sinks []admin.SinkStatus) string {
	name, most := "the sinks", int64(0)
	for _, s := range sinks {
		if s.LagBytes > most {
			name, most = s.Name, s.LagBytes
		}
	}
	return name
}
