package terminal

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Colour is the escape sequence that precedes a text on a terminal, or "".
type Colour string

// The colours of texts.
const (
	Bold   Colour = "\x1b[1m"
	Red    Colour = "\x1b[31m"
	Green  Colour = "\x1b[32m"
	Yellow Colour = "\x1b[33m"
	Cyan   Colour = "\x1b[36m"
)

// Apply returns a text in the colour.
func (c Colour) Apply(text string) string {
	if c == "" || text == "" {
		return text
	}
	return string(c) + text + "\x1b[0m"
}

// Cell returns a cell of a table with a text in the colour.
func (c Colour) Cell(text string) Cell { return Cell{text, c} }

// Cell is a field of a table.
type Cell struct {
	Text   string
	Colour Colour
}

// Table is a list of rows. The first row contains the names of the columns.
type Table struct{ rows [][]Cell }

// NewTable returns a table with these columns.
func NewTable(columns ...string) *Table {
	names := make([]Cell, len(columns))
	for i, name := range columns {
		names[i] = Cell{name, Bold}
	}
	return &Table{rows: [][]Cell{names}}
}

// Add adds a row. There must be a value for each column: a Cell, or anything that fmt can
// print.
func (t *Table) Add(values ...any) {
	row := make([]Cell, len(values))
	for i, value := range values {
		var ok bool
		if row[i], ok = value.(Cell); !ok {
			row[i].Text = fmt.Sprint(value)
		}
		row[i].Text = Printable(row[i].Text)
	}
	t.rows = append(t.rows, row)
}

// Print prints the table with aligned columns. It truncates the last column if a line is
// longer than width; with width 0 it truncates nothing.
func (t *Table) Print(w io.Writer, width int, colours bool) {
	const gap = 2
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.Text))
		}
	}
	last, before := len(widths)-1, 0
	for _, n := range widths[:last] {
		before += n + gap
	}
	for _, row := range t.rows {
		var line strings.Builder
		for i, c := range row {
			text, pad := c.Text, 0
			if i < last {
				pad = widths[i] + gap - utf8.RuneCountInString(text)
			} else if width > 0 {
				text = cut(text, max(width-before, len("REASON")))
			}
			if colours {
				text = c.Colour.Apply(text)
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
