package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// colour is the escape sequence that a text is preceded by on a terminal, or "".
type colour string

const (
	bold   colour = "\x1b[1m"
	red    colour = "\x1b[31m"
	green  colour = "\x1b[32m"
	yellow colour = "\x1b[33m"
	cyan   colour = "\x1b[36m"
)

// cell is a field of a table.
type cell struct {
	text   string
	colour colour
}

// table is a list of rows. The first row contains the names of the columns.
type table struct{ rows [][]cell }

// newTable returns a table with these columns.
func newTable(columns ...string) *table {
	names := make([]cell, len(columns))
	for i, name := range columns {
		names[i] = cell{name, bold}
	}
	return &table{rows: [][]cell{names}}
}

// add adds a row. There must be a value for each column: a cell, or anything that fmt can
// print.
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

// print prints the table with aligned columns. It truncates the last column if a line is
// longer than width; with width 0 it truncates nothing.
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

// cut truncates a text to n characters.
func cut(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}

// printable replaces line ends and control characters by spaces, because text from an
// appliance or a target is not trusted to control the terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}
