package main

import (
	"bytes"
	"testing"
	"time"

	"ndrbridge/internal/admin"
)

func TestAStatusIsPrinted(t *testing.T) {
	now := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	running := admin.Status{
		Version: "1.2", Running: true, Started: now.Add(-3 * time.Hour),
		State: admin.StateStatus{Path: "/s.db", FileBytes: 3 << 20, Journal: admin.Journal{Events: 7, Bytes: 2048, MaxBytes: 1 << 20}},
	}
	for _, c := range []struct {
		name   string
		change func(*admin.Status)
		want   []string // lines, with single blanks
		lacks  string
	}{
		{"a bridge where all is well", func(s *admin.Status) {
			s.Appliances = []admin.ApplianceStatus{{Name: "hq", Reachable: new(true), Since: now.Add(-2 * time.Hour), Firmware: "26.3.0.1234", ClockSkewSeconds: new(-4.0), Streams: []admin.StreamStatus{{
				Stream: "detections", LastSuccess: now.Add(-2 * time.Second), Position: now.Add(-7 * time.Second), LagSeconds: new(0.0), EventsPerSecond: 3.25,
			}}}}
			s.Sinks = []admin.SinkStatus{{Name: "lake", Kind: "kafka", State: "running", Since: now.Add(-time.Minute), EventsPerSecond: 250}}
		}, []string{
			"ndrbridge 1.2, running for 3h00m", "state /s.db, 3.0 MiB", "journal 7 events, 2.0 KiB of 1.0 MiB",
			"hq reachable 2h00m ago 26.3.0.1234", "hq detections 2s ago 3s ago 0s 3.2/s 0 0", "lake kafka running 1m ago 0 0 B - 250/s 0 0 0",
		}, "What to do"},
		{"a full journal names who holds it", func(s *admin.Status) {
			s.State.Journal.Full = true
			s.Sinks = []admin.SinkStatus{{Name: "lake", LagBytes: 10}, {Name: "soc", LagBytes: 20}}
		}, []string{"journal 7 events, 2.0 KiB of 1.0 MiB, full: polling is paused", "the journal is full, and polling is paused: fix soc, set its lag.policy to skip, or raise journal.max_bytes"}, ""},
		{"a reload that changed something", func(s *admin.Status) {
			s.Reload = &admin.ReloadStatus{Time: now.Add(-time.Minute), Trigger: admin.TriggerSignal, OK: true, Changes: []string{"sink lake: added", "journal: changed"}}
		}, []string{"reload 1m ago by SIGHUP, 2 changes"}, "What to do"},
		{"a reload that changed nothing", func(s *admin.Status) {
			s.Reload = &admin.ReloadStatus{Time: now.Add(-time.Minute), Trigger: admin.TriggerAPI, OK: true}
		}, []string{"reload 1m ago by a request, nothing changed"}, "What to do"},
		{"a reload that failed", func(s *admin.Status) {
			s.Reload = &admin.ReloadStatus{Time: now.Add(-time.Minute), Trigger: admin.TriggerWatch, Error: "ndrbridge.yaml:3:1:\x1b colour: unknown key"}
		}, []string{
			"reload 1m ago by a changed file, failed",
			"the configuration was not reloaded, and the bridge continues with the previous one; correct it, and it is reloaded automatically: ndrbridge.yaml:3:1: colour: unknown key",
		}, "\x1b"},
		{"a reload by command that failed", func(s *admin.Status) {
			s.Reload = &admin.ReloadStatus{Time: now.Add(-time.Minute), Trigger: admin.TriggerAPI, Error: "ndrbridge.yaml:3:1: colour: unknown key"}
		}, []string{"correct it and run ndrbridge reload: ndrbridge.yaml:3:1: colour: unknown key"}, ""},
		{"a stream that fails", func(s *admin.Status) {
			s.Appliances = []admin.ApplianceStatus{{Name: "hq", Streams: []admin.StreamStatus{{Stream: "audit", Failures: 3, Error: "401\x1b[2J refused", DeadLetters: 1}}}}
		}, []string{"hq audit - - - 0/s 3 1", "hq/audit fails and is retried: 401 [2J refused", "hq/audit has dead letters: see which objects could not be converted with ndrbridge dead list hq/audit"}, "\x1b"},
		{"an optional stream that is off", func(s *admin.Status) {
			s.Appliances = []admin.ApplianceStatus{{Name: "hq", Streams: []admin.StreamStatus{{Stream: "rules", Failures: 1, Error: "answered 404", Cause: "address not found (404)", Off: true}}}}
		}, []string{"hq rules - - - 0/s 1 0 off: address not found (404)", "hq/rules is off, since the appliance refuses it, and is asked again within an hour: answered 404"}, "is retried"},
		{"ticket tracking that the key may not read, which nobody can switch off", func(s *admin.Status) {
			s.Appliances = []admin.ApplianceStatus{{Name: "hq", Streams: []admin.StreamStatus{{Stream: "blind_spots/ticket_tracking", Failures: 2, Error: "answered 403", Cause: "not allowed (403)", Off: true}}}}
		}, []string{"hq blind_spots/ticket_tracking - - - 0/s 2 0 off: not allowed (403)"}, "What to do"},
		{"an unreachable appliance, whose streams do not repeat it", func(s *admin.Status) {
			s.Appliances = []admin.ApplianceStatus{{Name: "hq", Reachable: new(false), Since: now.Add(-5 * time.Minute), Error: "connection\nrefused", Streams: []admin.StreamStatus{
				{Stream: "audit", Failures: 9, Error: "GET /api/v1/auditlog: connection refused"},
			}}}
		}, []string{"hq unreachable 5m ago -", "hq audit - - - 0/s 9 0", "hq cannot be polled and is retried; no data is lost while the appliance retains it: connection refused"}, "auditlog"},
		{"an appliance of which nothing is known yet", func(s *admin.Status) {
			s.Appliances = []admin.ApplianceStatus{{Name: "hq", Streams: []admin.StreamStatus{{Stream: "audit"}}}}
		}, []string{"hq - - -", "hq audit - - - 0/s 0 0"}, "What to do"},
		{"an appliance whose clock is ahead, by which its streams are measured", func(s *admin.Status) {
			s.Appliances = []admin.ApplianceStatus{{Name: "hq", Reachable: new(true), Since: now, ClockSkewSeconds: new(300.0), Streams: []admin.StreamStatus{
				{Stream: "audit", Position: now.Add(299 * time.Second), LagSeconds: new(0.0)},
			}}}
		}, []string{"hq reachable 0s ago - its clock is 5m ahead", "hq audit - 1s ago 0s 0/s 0 0", "hq: its clock is 5m ahead: synchronize both clocks with NTP; no data is lost, but timestamps do not match"}, ""},
		{"an appliance whose clock is behind", func(s *admin.Status) {
			s.Appliances = []admin.ApplianceStatus{{Name: "hq", ClockSkewSeconds: new(-5.5)}}
		}, []string{"hq - - - its clock is 5s behind", "hq: its clock is 5s behind: synchronize both clocks with NTP; no data is lost, but timestamps do not match"}, ""},
		{"a backlog that is read", func(s *admin.Status) {
			s.Appliances = []admin.ApplianceStatus{{Name: "hq", Streams: []admin.StreamStatus{{Stream: "records/dns", Backlog: &admin.Backlog{At: now.Add(-time.Hour), BehindSeconds: 3600, EventsPerSecond: 1200.4, LeftSeconds: 90}}}}}
		}, []string{"hq records/dns - - - 0/s 0 0 reading a backlog, at 2026-01-31T07:00:00Z: 1h00m behind, 1200/s, 1m left"}, ""},
		{"a sink that is halted", func(s *admin.Status) {
			s.Sinks = []admin.SinkStatus{{
				Name: "lake", Kind: "webhook", State: "halted", Since: now.Add(-time.Hour), Error: "403 forbidden", LagEvents: 5, LagBytes: 1024, Oldest: now.Add(-49 * time.Hour),
				OverLag: true, FillsJournalInSeconds: 7200, DeadLetters: 2, DeadLetterBytes: 90, DeadLetterMaxBytes: 100, Redeliveries: 3, Skipped: 4,
			}}
		}, []string{
			"lake webhook halted 1h00m ago 5 1.0 KiB 2d1h ago 0/s 2 3 4 fills the journal in 2h00m; exceeds its lag limit",
			"lake is halted until this is fixed: 403 forbidden",
			"lake is retried automatically, or immediately with: ndrbridge resume lake",
			"lake has dead letters: see why with ndrbridge dead list lake, then requeue or drop them",
			"lake: its dead letters use 90 B of 100 B; the sink halts when they are full",
			"lake exceeds its lag limit: find out why it is slow, or change its lag",
		}, ""},
		{"a sink with a match that fails for some events", func(s *admin.Status) {
			s.Sinks = []admin.SinkStatus{
				{Name: "lake", Kind: "file", State: "running", Since: now},
				{Name: "soc", Kind: "nats", State: "running", Since: now, Match: &admin.MatchStatus{Matched: 12, Filtered: 28, Errors: 2, Error: "match event 1-2: no such overload"}},
			}
		}, []string{
			"lake file running 0s ago 0 0 B - 0/s 0 0 0 -", "soc nats running 0s ago 0 0 B - 0/s 0 0 0 12 of 42 its match failed for 2 events",
			"soc: its match failed for 2 events since the start, and on_error decided what happened to them: fix the expression: match event 1-2: no such overload",
		}, ""},
		{"a sink with a match that matches nothing", func(s *admin.Status) {
			s.Sinks = []admin.SinkStatus{{Name: "soc", Kind: "nats", State: "running", Since: now, Match: &admin.MatchStatus{Matched: 1, Filtered: 1500, ConsecutiveFiltered: 1000, FilteredSince: now.Add(-time.Hour)}}}
		}, []string{
			"soc nats running 0s ago 0 0 B - 0/s 0 0 0 1 of 1501 none of the last 1000 events matched",
			"soc: its match matched none of the last 1000 events, since 2026-01-31T07:00:00Z: unless that is intended, try the expression on your events with ndrbridge try match",
		}, ""},
		{"a sink with a match that matches little", func(s *admin.Status) {
			s.Sinks = []admin.SinkStatus{{Name: "soc", Kind: "nats", State: "running", Since: now, Match: &admin.MatchStatus{Filtered: 999, ConsecutiveFiltered: 999, FilteredSince: now}}}
		}, []string{"soc nats running 0s ago 0 0 B - 0/s 0 0 0 0 of 999"}, "matched none"},
		{"a sink that is tried again", func(s *admin.Status) {
			s.Sinks = []admin.SinkStatus{{Name: "lake", Kind: "nats", State: "retrying", Since: now, Error: "no answer"}}
		}, []string{"lake nats retrying 0s ago 0 0 B - 0/s 0 0 0", "lake fails and is retried: no answer"}, ""},
		{"a sink that is paused", func(s *admin.Status) {
			s.Sinks = []admin.SinkStatus{{Name: "lake", Kind: "file", State: "paused", Since: now}}
		}, []string{"lake file paused 0s ago 0 0 B - 0/s 0 0 0", "lake is paused: resume it with ndrbridge resume lake"}, ""},
		{"brokers that ticket commands come from", func(s *admin.Status) {
			s.Intakes = []admin.IntakeStatus{
				{Intake: "nats", State: "running", Since: now.Add(-time.Hour), Stored: 7, Refused: 1},
				{Intake: "kafka", State: "retrying", Since: now.Add(-time.Minute), Error: "no answer", Cause: "timed out"},
			}
		}, []string{"nats running 1h00m ago 7 1", "kafka retrying 1m ago 0 0 timed out", "ticket commands from kafka are not received and stay there: no answer"}, ""},
		{"a sink that is no longer configured", func(s *admin.Status) {
			s.Unconfigured = []admin.SinkStatus{{Name: "old", LagEvents: 1}}
		}, []string{"old - not configured - 1 0 B - - 0 0 0", "old is not configured: delete its state with ndrbridge state forget old, or rename it with ndrbridge state rename old NEW"}, ""},
		{"a bridge that does not run", func(s *admin.Status) {
			s.Running = false
			s.Appliances = []admin.ApplianceStatus{{Name: "hq", Streams: []admin.StreamStatus{{Stream: "detections", Position: now.Add(-time.Hour)}}}}
			s.Sinks = []admin.SinkStatus{{Name: "lake", Kind: "kafka"}}
		},
			[]string{"hq detections - 1h00m ago - - 0 0", "lake kafka - - 0 0 B - - 0 0 0", "ndrbridge is not running; this is the status in its state file", "start the bridge with: ndrbridge run"}, "FIRMWARE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status := running
			c.change(&status)
			var out bytes.Buffer
			(&command{stdout: &out}).printStatus(status, now)
			expectLines(t, out.String(), c.want, c.lacks)
		})
	}
}
