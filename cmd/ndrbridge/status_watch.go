package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/internal/admin"
)

const (
	usualWatch  = "2s"
	leastWatch  = 500 * time.Millisecond
	longestPoll = 10 * time.Second       // of the status, before it is reported as an error
	resizeEvery = 250 * time.Millisecond // how often the size of the terminal is read
)

// The sequences that enter and leave the screen of a full-screen program: the alternate
// screen, without a cursor, in which lines that are too long are cut off.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// checkWatch returns an error if the status cannot be watched at this interval.
func (c *command) checkWatch(every time.Duration) error {
	switch {
	case every < leastWatch:
		return fmt.Errorf("%w: --watch: must be at least %s", commandline.ErrUsage, leastWatch)
	case c.asJSON:
		return fmt.Errorf("%w: --watch is for a terminal: for a script, run ndrbridge status --json in a loop", commandline.ErrUsage)
	case !c.terminal:
		return fmt.Errorf("%w: --watch requires a terminal, and standard output is none: run ndrbridge status, or ndrbridge status --json, in a loop", commandline.ErrUsage)
	}
	return nil
}

// watch shows the status that poll returns on the terminal, and renews it at each interval,
// until ctx is done. It returns an error only if the first poll fails; later errors are
// shown. The screen is as before when it returns.
func (c *command) watch(ctx context.Context, every time.Duration, poll func(context.Context) (admin.Status, error)) error {
	ask := func() (admin.Status, error) {
		ctx, cancel := context.WithTimeout(ctx, longestPoll)
		defer cancel()
		return poll(ctx)
	}
	status, err := ask()
	if err != nil {
		return err
	}
	fmt.Fprint(c.stdout, enterScreen)
	defer fmt.Fprint(c.stdout, leaveScreen)
	refresh, resize := time.NewTicker(every), time.NewTicker(resizeEvery)
	defer refresh.Stop()
	defer resize.Stop()
	at := time.Now()
	for {
		columns, rows := c.screenSize()
		c.draw(status, err, every, at, columns, rows)
		for changed := false; !changed; {
			select {
			case <-ctx.Done(): // Ctrl-C is the normal end
				return nil
			case <-resize.C:
				newColumns, newRows := c.screenSize()
				changed = newColumns != columns || newRows != rows
			case <-refresh.C:
				var next admin.Status
				if next, err = ask(); err == nil {
					status = next
				}
				at, changed = time.Now(), true
			}
		}
	}
}

// screenSize returns the size of the terminal, or a usual one if it is not known.
func (c *command) screenSize() (columns, rows int) {
	if c.screen != nil {
		if columns, rows, known := c.screen(); known {
			return columns, rows
		}
	}
	return c.width(), 24
}

// draw replaces what is on the screen by a status, which was requested at a time, and the
// error of the last request, if any. What does not fit is left out at the end.
func (c *command) draw(s admin.Status, failed error, every time.Duration, at time.Time, columns, rows int) {
	var b bytes.Buffer
	frame := *c
	frame.stdout, frame.stderr = &b, io.Discard
	frame.screen, frame.fold = func() (int, int, bool) { return columns, rows, true }, columns
	fmt.Fprintf(&b, "%s, every %s; Ctrl-C ends\n", at.Format(time.TimeOnly), every)
	if failed != nil {
		text := strings.Join(frame.folded(terminal.Printable(failed.Error())), "\n")
		if c.colours() {
			text = terminal.Red.Apply(text)
		}
		fmt.Fprintf(&b, "%s\nthe last known status:\n", text)
	}
	in, out := rates(s)
	fmt.Fprintf(&b, "read %s, delivered %s\n\n", terminal.Rate(in, s.Running), terminal.Rate(out, s.Running))
	s.Sinks = troubledFirst(s.Sinks)
	frame.printStatus(s, at)

	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) > rows {
		left := len(lines) - rows + 1
		lines = append(lines[:rows-1], fmt.Sprintf("… %s: enlarge the terminal", terminal.Count(left, "more line")))
	}
	// A line is erased before it is written: after a line that fills the terminal, its last
	// character would be erased.
	const home, eraseLine, eraseBelow = "\x1b[H", "\x1b[2K", "\x1b[J"
	fmt.Fprint(c.stdout, home+eraseLine+strings.Join(lines, "\r\n"+eraseLine))
	if len(lines) < rows {
		fmt.Fprint(c.stdout, "\r\n"+eraseBelow)
	}
}

// folded returns the lines of a text, folded where the terminal would cut them off.
func (c *command) folded(text string) []string {
	if c.fold == 0 {
		return []string{text}
	}
	return terminal.Fold(text, c.fold, "    ")
}

// rates returns how many events per second are read from all streams, and accepted by all
// sinks.
func rates(s admin.Status) (in, out float64) {
	for _, a := range s.Appliances {
		for _, stream := range a.Streams {
			in += stream.EventsPerSecond
		}
	}
	for _, sink := range s.Sinks {
		out += sink.EventsPerSecond
	}
	return in, out
}

// troubledFirst returns the sinks with those first that need attention most.
func troubledFirst(sinks []admin.SinkStatus) []admin.SinkStatus {
	trouble := func(s admin.SinkStatus) int {
		switch {
		case s.State == "halted", s.State == "stuck":
			return 4
		case s.State == "retrying":
			return 3
		case s.OverLag || s.FillsJournalInSeconds > 0:
			return 2
		case s.State == "paused" || s.DeadLetters > 0:
			return 1
		}
		return 0
	}
	sorted := slices.Clone(sinks)
	slices.SortStableFunc(sorted, func(a, b admin.SinkStatus) int { return cmp.Compare(trouble(b), trouble(a)) })
	return sorted
}
