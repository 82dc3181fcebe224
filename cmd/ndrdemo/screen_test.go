package main

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"ndrbridge/transform"
)

func someStanding() progress {
	return progress{elapsed: 62 * time.Second, detections: 312, versions: 345, entries: 61, records: 80, sinks: []sinkProgress{
		{demoSink: demoSink{"bus", "NATS"}, events: 345},
		{demoSink: demoSink{"soc", "webhook"}, events: 1340, duplicates: 12, waiting: 7},
	}}
}

const table = `        detections     audit log           bus, NATS         soc, webhook
 time | shown versions entries records | events dup wait | events dup wait
 1:02 |   312      345      61      80 |    345   0    0 |   1340  12    7
`

func TestScreen(t *testing.T) {
	t.Run("without a terminal, rows stand between the lines", func(t *testing.T) {
		var out bytes.Buffer
		s := newScreen(&out)
		s.line("one")
		s.update(someStanding())
		s.line("two")
		s.update(someStanding())
		row := table[strings.LastIndex(table[:len(table)-1], "\n")+1:]
		if want := "one\n" + table + "two\n" + row; out.String() != want {
			t.Errorf("got\n%s\nwant\n%s", &out, want)
		}
	})
	t.Run("without a terminal, the heading comes again", func(t *testing.T) {
		var out bytes.Buffer
		s := newScreen(&out)
		for range 11 {
			s.update(someStanding())
		}
		if got := strings.Count(out.String(), "shown versions"); got != 2 {
			t.Errorf("it came %d times", got)
		}
	})
	t.Run("on a terminal, the table is drawn over below the lines", func(t *testing.T) {
		var out bytes.Buffer
		s := &screen{out: &out, terminal: true}
		s.line("one")
		s.update(someStanding())
		s.line("two")
		over := func(text string) string { return "\x1b[?7l" + text + "\x1b[?7h" }
		want := over("one\n") + over("\n"+table) + over("\r\x1b[4A\x1b[J"+"two\n\n"+table)
		if out.String() != want {
			t.Errorf("got\n%q\nwant\n%q", &out, want)
		}
	})
}

func TestCaughtUp(t *testing.T) {
	s := someStanding()
	if s.caughtUp() {
		t.Error("a sink waits, and the progress reports caught up")
	}
	s.sinks[1].waiting = 0
	if !s.caughtUp() {
		t.Error("no sink waits, and the progress does not report caught up")
	}
}

func TestSample(t *testing.T) {
	for _, c := range []struct {
		name, data, want string
	}{
		{"offender and victim", `{"detection":{"title":"Port Scan","participants":[{"role":"offender","object_value":"10.0.0.1"},{"role":"victim","hostname":"db.corp.example","object_value":"10.0.0.2"}]}}`,
			"Port Scan                             10.0.0.1 → db"},
		{"more victims than one", `{"detection":{"title":"SYN Flood","participants":[{"role":"offender","hostname":null,"object_value":"a"},{"role":"victim","object_value":"b"},{"role":"victim","object_value":"c"}]}}`,
			"a → b +1"},
		{"no victim", `{"detection":{"title":"T","participants":[{"role":"offender","object_value":"a"}]}}`, " a"},
		{"no offender", `{"detection":{"title":"T","participants":[{"role":"victim","object_value":"b"}]}}`, " → b"},
		{"what changed, in its order", `{"detection":{"title":"T","participants":[]},"changes":{"status":{"from":null,"to":"closed"},"assignee":{"from":null,"to":"ada"}}}`,
			"(status, assignee)"},
		{"control characters are replaced", `{"detection":{"title":"\u001b[2J\nT","participants":[]}}`, "�[2J�T"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := transform.New(transform.Attributes{
				ID: "1", Source: "s", Type: "io.ndrbridge.detection.updated", Time: time.UnixMilli(1), SeverityNumber: 13,
			}, []byte(c.data))
			if err != nil {
				t.Fatal(err)
			}
			got, err := sample(e)
			if err != nil || !strings.Contains(got, " medium   updated ") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestSampleOfATicket(t *testing.T) {
	e, err := transform.New(transform.Attributes{
		ID: "1", Source: "ndrbridge://hq/events", Type: "io.ndrbridge.ticket.applied", Time: time.UnixMilli(1),
	}, []byte(`{"ticket":{"command":7,"ticket_id":"SEC-1","status":"closed"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := sample(e); err != nil || !strings.HasSuffix(got, " ticket   applied  SEC-1 closed") {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestEcho(t *testing.T) {
	var log bytes.Buffer
	var warnings []string
	l := slog.New(&warningHandler{Handler: slog.NewTextHandler(&log, nil), warn: func(line string) { warnings = append(warnings, line) }})
	l.With("sink", "soc").Info("sink delivers again")
	l.With("appliance", "hq", "stream", "detections").Warn("poll failed", "error", errors.New("refused"), "next", 1)
	if want := []string{"hq: detections: poll failed: refused"}; !slices.Equal(warnings, want) {
		t.Errorf("warnings %q, want %q", warnings, want)
	}
	if got := strings.Count(log.String(), "\n"); got != 2 {
		t.Errorf("the log has %d lines: %s", got, &log)
	}
}
