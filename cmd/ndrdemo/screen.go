package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// progress is how far things are at a moment.
type progress struct {
	elapsed                                time.Duration
	detections, versions, entries, records int // that the appliance has shown
	sinks                                  []sinkStanding
}

// sinkStanding is how far one sink is.
type sinkStanding struct {
	demoSink
	events, duplicates int
	waiting            int // detections whose latest version is not there, entries and records
}

// caughtUp reports whether everything is everywhere.
func (s progress) caughtUp() bool {
	for _, sink := range s.sinks {
		if sink.waiting > 0 {
			return false
		}
	}
	return true
}

// heading names the columns of row.
func (s progress) heading() string {
	above, below := "        detections     audit log        ", " time | shown versions entries records"
	for _, sink := range s.sinks {
		above += fmt.Sprintf("   %-15s", sink.demoSink)
		below += " | events dup wait"
	}
	return strings.TrimRight(above, " ") + "\n" + below
}

func (s progress) row() string {
	seconds := int(s.elapsed.Round(time.Second).Seconds())
	row := fmt.Sprintf("%2d:%02d | %5d %8d %7d %7d", seconds/60, seconds%60, s.detections, s.versions, s.entries, s.records)
	for _, sink := range s.sinks {
		row += fmt.Sprintf(" | %6d %3d %4d", sink.events, sink.duplicates, sink.waiting)
	}
	return row
}

// screen shows lines that pass, and where things stand. On a terminal the
// standing is a table below the lines that is drawn over; elsewhere it is a line
// like the others, with its heading now and then.
type screen struct {
	out      io.Writer
	terminal bool
	rows     int    // printed where this is no terminal
	table    string // what is drawn at the end of a terminal
}

func newScreen(out io.Writer) *screen {
	s := &screen{out: out}
	if file, ok := out.(*os.File); ok && os.Getenv("TERM") != "dumb" {
		info, err := file.Stat()
		s.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return s
}

// interval is how often the standing is worth a look.
func (s *screen) interval() time.Duration {
	if s.terminal {
		return time.Second
	}
	return 2 * time.Second
}

// line prints a line that passes.
func (s *screen) line(text string) { s.draw(text+"\n", s.table) }

// update shows where things stand.
func (s *screen) update(now progress) {
	if s.terminal {
		s.draw("", "\n"+now.heading()+"\n"+now.row()+"\n")
		return
	}
	const rowsPerHeading = 10
	row := now.row() + "\n"
	if s.rows%rowsPerHeading == 0 {
		row = now.heading() + "\n" + row
	}
	s.rows++
	s.draw(row, "")
}

// draw puts passing text in front of the table. Whoever reads it misses it when
// it is gone, so a failed write is no matter.
func (s *screen) draw(passing, table string) {
	const (
		noWrap, wrap = "\x1b[?7l", "\x1b[?7h" // a wrapped line would take two
		up           = "\r\x1b[%dA"
		erase        = "\x1b[J"
	)
	if !s.terminal {
		_, _ = io.WriteString(s.out, passing+table)
		return
	}
	text := noWrap
	if s.table != "" {
		text += fmt.Sprintf(up, strings.Count(s.table, "\n")) + erase
	}
	_, _ = io.WriteString(s.out, text+passing+table+wrap)
	s.table = table
}
