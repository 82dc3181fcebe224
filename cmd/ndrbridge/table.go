package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// colour is what a terminal is sent in front of a text; empty: as it is.
type colour string

const (
	bold   colour = "\x1b[1m"
	red    colour = "\x1b[31m"
	green  colour = "\x1b[32m"
	yellow colour = "\x1b[33m"
	cyan   colour = "\x1b[36m"
)

// cell is one field of a table.
type cell struct {
	text   string
	colour colour
}

// table is rows of cells, the first of which names the columns.
type table struct{ rows [][]cell }

// newTable returns a table with the names of its columns.
func newTable(columns ...string) *table {
	names := make([]cell, len(columns))
	for i, name := range columns {
		names[i] = cell{name, bold}
	}
	return &table{rows: [][]cell{names}}
}

// add adds a row, with a cell for each column: a cell, or what fmt prints.
func (t *table) add(values ...any) {
	row := make([]cell, len(values))
	for i, value := range values {
		var ok bool
		if row[i], ok = value.(cell); !ok {
			row[i].text = fmt.Sprint(value)
		}
		row[i].text = printable(row[i].text)
	}
	t.rows = append(t.rows, row)
}

// print prints the columns side by side. The last one is cut where a line is
// longer than width; 0: nothing is cut.
func (t *table) print(w io.Writer, width int, colours bool) {
	const gap = 2
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	last, before := len(widths)-1, 0
	for _, n := range widths[:last] {
		before += n + gap
	}
	for _, row := range t.rows {
		var line strings.Builder
		for i, c := range row {
			text, pad := c.text, 0
			if i < last {
				pad = widths[i] + gap - utf8.RuneCountInString(text)
			} else if width > 0 {
				text = cut(text, max(width-before, len("REASON")))
			}
			if colours && c.colour != "" && text != "" {
				text = string(c.colour) + text + "\x1b[0m"
			}
			line.WriteString(text + strings.Repeat(" ", pad))
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// cut shortens a text to so many characters.
func cut(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}

// printable is a text on one line without what a terminal would obey: what an
// appliance or a target wrote is not to be trusted with that.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}
