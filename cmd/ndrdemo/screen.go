package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// progress holds the counts at one moment.
type progress struct {
	elapsed                                time.Duration
	detections, versions, entries, records int // that the appliance has shown
	sinks                                  []sinkProgress
}

// sinkProgress holds the counts of one sink.
type sinkProgress struct {
	demoSink
	events, duplicates int
	waiting            int // detections (by their latest version), entries and records to come
}

// caughtUp reports whether every sink has received everything.
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

// screen prints lines and the progress. On a terminal, the progress is a table below the
// lines that is redrawn in place. Otherwise it is printed as a row from time to time,
// with a heading every few rows.
type screen struct {
	out      io.Writer
	terminal bool
	rows     int    // number of rows printed, if not a terminal
	table    string // the table currently drawn, if a terminal
}

func newScreen(out io.Writer) *screen {
	s := &screen{out: out}
	if file, ok := out.(*os.File); ok && os.Getenv("TERM") != "dumb" {
		info, err := file.Stat()
		s.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return s
}

// interval returns how often to update the progress.
func (s *screen) interval() time.Duration {
	if s.terminal {
		return time.Second
	}
	return 2 * time.Second
}

// line prints a line.
func (s *screen) line(text string) { s.draw(text+"\n", s.table) }

// update prints the progress.
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

// draw prints text and then table, which replaces the table drawn before. It ignores write
// errors.
func (s *screen) draw(lines, table string) {
	const (
		noWrap, wrap = "\x1b[?7l", "\x1b[?7h" // a wrapped line would occupy two
		up           = "\r\x1b[%dA"
		erase        = "\x1b[J"
	)
	if !s.terminal {
		_, _ = io.WriteString(s.out, lines+table)
		return
	}
	text := noWrap
	if s.table != "" {
		text += fmt.Sprintf(up, strings.Count(s.table, "\n")) + erase
	}
	_, _ = io.WriteString(s.out, text+lines+table+wrap)
	s.table = table
}
