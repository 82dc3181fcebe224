package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/internal/admin"
	"ndrbridge/poller"
)

func (c *command) statusCommand() *cobra.Command {
	var exitCode bool
	var timeout time.Duration
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "status",
		Short: "Show the status of appliances, streams, sinks and the journal",
		Long: `Show the status of the bridge: the journal, each appliance, each stream with its last
successful poll and the failures since, each sink with its state and undelivered events,
and what to do about problems.

  POLLED     when the last poll succeeded; FAILED is the number of failed polls since
  READ TO    the time up to which the stream was read, by the appliance's clock; its LAG
             is how far this is behind the newest data
  RATE       events per second, averaged over about the last minute: read from the
             stream, or accepted by the sink
  LAG        the sink's undelivered events; OLDEST is when the oldest was journalled
  MATCHED    of the events that the sink's match has seen, those that matched; the others
             were not sent. Shown if a sink has a match
  DEAD       dead letters: events that a target rejected permanently, or objects that
             could not be converted into events
  REDELIVER  events that are queued to be delivered again
  SKIPPED    events that were never sent to the sink, because of its lag policy or
             because it was not configured; the count is never reset

In a cluster, this is the status of the owner of the log, whichever member is asked. Without
an owner, the status of the cluster is shown, as by ndrbridge cluster status, and the exit
code is 1.

If ticket commands are received from brokers, each is shown with the number of messages
that were STORED, and that were REFUSED because they contain no valid command, since the
connection was opened.

Otherwise, the exit code is 0 regardless of the status. Use /readyz to check it in a script.

With --exit-code, only /healthz is requested, without a token, and nothing is printed: the
exit code is 0 if a running bridge reports within --timeout that it is alive, and 1
otherwise. Use it to restart a bridge that hangs, for example as a container's health
check. A bridge that is alive may still have problems.`,
		Example: `  ndrbridge status --config ndrbridge.yaml
  ndrbridge status --exit-code --admin https://ndr.example:9600 --ca-file ca.pem
  ndrbridge status --json | jq '.sinks[] | select(.state == "halted")'`,
		Args: commandline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if exitCode {
				return c.health(cmd.Context(), timeout)
			}
			return c.acting(cmd.Context(), func(control *admin.Client) error {
				status, err := control.Status(cmd.Context())
				switch {
				case err != nil:
					return c.withoutOwner(cmd.Context(), control, err)
				case c.asJSON:
					return c.printJSON(status)
				}
				c.printStatus(status, time.Now())
				return nil
			})
		},
	}))
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "report by the exit code alone whether a bridge is alive")
	cmd.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "with --exit-code, how long to wait for the response")
	return cmd
}

// withoutOwner prints the status of the cluster if a member could not return that of the owner
// because of err. It returns err.
func (c *command) withoutOwner(ctx context.Context, member *admin.Client, err error) error {
	if errors.Is(err, admin.ErrUnavailable) && !c.asJSON {
		if seen, failed := admin.API.GetCluster.Call(ctx, member, admin.None{}); failed == nil {
			c.printCluster(seen, time.Now())
		}
	}
	return err
}

// printStatus prints a status for a person.
func (c *command) printStatus(s admin.Status, now time.Time) {
	if s.Running {
		fmt.Fprintf(c.stdout, "ndrbridge %s, running for %s\n", terminal.Printable(s.Version), terminal.Duration(now.Sub(s.Started)))
	} else {
		fmt.Fprintln(c.stdout, "ndrbridge is not running; this is the status in its state file")
	}
	fmt.Fprintf(c.stdout, "state    %s, %s\n", terminal.Printable(s.State.Path), terminal.Bytes(s.State.FileBytes))
	fmt.Fprintf(c.stdout, "journal  %s\n", journalText(s.State.Journal))
	if s.Cluster != nil {
		fmt.Fprintf(c.stdout, "cluster  %s\n", terminal.Printable(clusterText(*s.Cluster)))
	}
	if s.Reload != nil {
		fmt.Fprintf(c.stdout, "reload   %s\n", terminal.Printable(reloadText(*s.Reload, now)))
	}
	fmt.Fprintln(c.stdout)

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
	c.printAdvice(advice(s))
}

// printAdvice prints what to do, if there is anything.
func (c *command) printAdvice(lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintln(c.stdout, "\nWhat to do:")
	for _, line := range lines {
		fmt.Fprintln(c.stdout, "  "+terminal.Printable(line))
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
		state := "-"
		switch {
		case a.Reachable == nil:
		case *a.Reachable:
			state = "reachable"
		default:
			state = "unreachable"
		}
		t.Add(a.Name, wordCell(state), terminal.Ago(a.Since, now), cmp.Or(a.Firmware, "-"), terminal.Yellow.Cell(applianceNote(a)))
	}
	return t
}

// applianceNote describes an unusual condition of an appliance.
func applianceNote(a admin.ApplianceStatus) string {
	notes := []string{a.Cause, clockText(a)}
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
			lag := "-"
			if s.LagSeconds != nil {
				lag = terminal.Seconds(*s.LagSeconds)
			}
			failed := terminal.Red
			if s.Off {
				failed = "" // the note has the reason
			}
			t.Add(a.Name, s.Stream, terminal.Ago(s.LastSuccess, now), terminal.Ago(s.Position, clock), lag, terminal.Rate(s.EventsPerSecond, status.Running),
				countCell(s.Failures, failed), countCell(s.DeadLetters, terminal.Yellow), noteOf(s))
		}
	}
	return t
}

// noteOf returns what else there is to say about a stream.
func noteOf(s admin.StreamStatus) string {
	if s.Off {
		return "off: " + s.Cause
	}
	note := cmp.Or(s.Cause, backlogText(s.Backlog))
	if s.Skipped > 0 {
		return strings.TrimPrefix(note+fmt.Sprintf(", %s skipped", terminal.Count(s.Skipped, "detection")), ", ")
	}
	return note
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
	columns := []string{"SINK", "KIND", "STATE", "SINCE", "LAG", "BYTES", "OLDEST", "RATE", "DEAD", "REDELIVER", "SKIPPED", "NOTE"}
	matches := slices.ContainsFunc(status.Sinks, func(s admin.SinkStatus) bool { return s.Match != nil })
	if matches {
		columns = slices.Insert(columns, len(columns)-1, "MATCHED")
	}
	t := terminal.NewTable(columns...)
	for _, s := range status.Sinks {
		addSink(t, s, wordCell(cmp.Or(s.State, "-")), terminal.Rate(s.EventsPerSecond, status.Running), matches, now)
	}
	for _, s := range status.Unconfigured {
		addSink(t, s, terminal.Yellow.Cell("not configured"), "-", matches, now)
	}
	return t
}

func addSink(t *terminal.Table, s admin.SinkStatus, state terminal.Cell, rate string, matches bool, now time.Time) {
	var notes []string
	if s.Cause != "" {
		notes = append(notes, s.Cause)
	}
	if s.FillsJournalInSeconds > 0 {
		notes = append(notes, "fills the journal in "+terminal.Seconds(s.FillsJournalInSeconds))
	}
	if s.Parked > 0 {
		notes = append(notes, terminal.Count(s.Parked, "event")+" parked")
	}
	if s.OverLag {
		notes = append(notes, "exceeds its lag limit")
	}
	if s.Match != nil && s.Match.Error != "" {
		notes = append(notes, fmt.Sprintf("its match failed for %s", terminal.Count(s.Match.Errors, "event")))
	}
	if s.Match.MatchesNothing() {
		notes = append(notes, fmt.Sprintf("none of the last %s matched", terminal.Count(s.Match.ConsecutiveFiltered, "event")))
	}
	values := []any{s.Name, cmp.Or(s.Kind, "-"), state, terminal.Ago(s.Since, now), s.LagEvents, terminal.Bytes(s.LagBytes), terminal.Ago(s.Oldest, now), rate,
		countCell(s.DeadLetters, terminal.Yellow), s.Redeliveries, s.Skipped}
	if matches {
		values = append(values, matchedText(s.Match))
	}
	t.Add(append(values, terminal.Yellow.Cell(strings.Join(notes, "; ")))...)
}

// matchedText returns how many of the events that a match has seen matched.
func matchedText(m *admin.MatchStatus) string {
	if m == nil {
		return "-"
	}
	return fmt.Sprintf("%d of %d", m.Matched, m.Matched+m.Filtered+m.Errors)
}

func intakesTable(intakes []admin.IntakeStatus, now time.Time) *terminal.Table {
	t := terminal.NewTable("TICKETS FROM", "STATE", "SINCE", "STORED", "REFUSED", "NOTE")
	for _, i := range intakes {
		t.Add(i.Intake, wordCell(i.State), terminal.Ago(i.Since, now), i.Stored, countCell(i.Refused, terminal.Yellow), terminal.Yellow.Cell(i.Cause))
	}
	return t
}

// advice returns what to do about the problems in a status, one line each.
func advice(s admin.Status) []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if !s.Running {
		add("start the bridge with: ndrbridge run")
	}
	if text := reloadAdvice(s.Reload); text != "" {
		add("%s", text)
	}
	if s.Cluster != nil {
		lines = append(lines, clusterAdvice(*s.Cluster)...)
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
			switch {
			case stream.Off && stream.Stream == poller.StreamTracking: // it cannot be switched off, and nothing depends on it
			case stream.Off:
				add("%s/%s is off, since the appliance refuses it, and is asked again within an hour: %s", a.Name, stream.Stream, stream.Error)
			case stream.Failures > 0 && reached:
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
		for _, of := range []struct {
			what   string
			writer *admin.WriterStatus
		}{{"ticket changes", a.Tickets}, {"tuning rules", a.Rules}, {"notes", a.Notes}} {
			if of.writer != nil && of.writer.Error != "" {
				add("%s are not written to %s (%s); their commands are kept: %s", of.what, a.Name, of.writer.State, of.writer.Error)
			}
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
		add("%[1]s is not configured: delete its state with ndrbridge state forget %[1]s, or rename it with ndrbridge state rename %[1]s NEW", sink.Name)
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
	case "stuck":
		add("%s is stuck: %s", s.Name, s.Error)
	case "paused":
		add("%[1]s is paused: resume it with ndrbridge resume %[1]s", s.Name)
	}
	if m := s.Match; m != nil && m.Error != "" {
		add("%s: its match failed for %s since the start, and on_error decided what happened to them: fix the expression: %s", s.Name, terminal.Count(m.Errors, "event"), m.Error)
	}
	if m := s.Match; m.MatchesNothing() {
		add("%s: its match matched none of the last %s, since %s: unless that is intended, try the expression on your events with ndrbridge try match",
			s.Name, terminal.Count(m.ConsecutiveFiltered, "event"), m.FilteredSince.UTC().Format(time.RFC3339))
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
