package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
)

// withJSON adds --json to a command.
func (c *command) withJSON(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "print JSON, one object per line")
	return cmd
}

// print prints the result of a command: value with --json, otherwise a line for a person.
func (c *command) print(value any, line string, args ...any) error {
	if c.asJSON {
		return c.printJSON(value)
	}
	_, err := fmt.Fprintf(c.stdout, line+"\n", args...)
	return err
}

// printJSON prints a value as one line of JSON.
func (c *command) printJSON(value any) error {
	encoder := json.NewEncoder(c.stdout)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// listing describes how items, such as dead letters, are listed.
type listing[T any] struct {
	columns []string
	whole   bool // the last column is not truncated on a terminal
	limit   int  // 0: all
	// next returns the items after those that it returned before, and whether they are the last.
	next func() (page []T, last bool, err error)
	row  func(T) []any       // an item in the table
	none string              // is printed if there is no item
	more func(last T) string // how to list the items beyond limit, of which last is the last one
}

// list prints the items page by page with --json, otherwise as one table.
func list[T any](c *command, l listing[T]) error {
	t, n, more := terminal.NewTable(l.columns...), 0, ""
	var listed T
	for last := false; !last && more == ""; {
		var page []T
		var err error
		if page, last, err = l.next(); err != nil {
			return err
		}
		for _, item := range page {
			if l.limit > 0 && n == l.limit {
				more = l.more(listed)
				break
			}
			if !c.asJSON {
				t.Add(l.row(item)...)
			} else if err := c.printJSON(item); err != nil {
				return err
			}
			listed = item
			n++
		}
	}
	switch {
	case c.asJSON:
	case n == 0:
		fmt.Fprintln(c.stdout, l.none)
	default:
		width := c.width()
		if l.whole {
			width = 0
		}
		t.Print(c.stdout, width, c.colours())
	}
	if more != "" {
		fmt.Fprintln(c.stderr, "there are more: "+more)
	}
	return nil
}

// wordCell returns a cell with a state or a result in its colour.
func wordCell(word string) terminal.Cell {
	var colour terminal.Colour
	switch word {
	case "running", "reachable", "ok", "applied":
		colour = terminal.Green
	case "retrying", "not tried", "warning", "pending":
		colour = terminal.Yellow
	case "halted", "stuck", "unreachable", "failed", "rejected":
		colour = terminal.Red
	case "paused":
		colour = terminal.Cyan
	}
	return colour.Cell(word)
}

// countCell returns a cell with a count, in the colour if it is not 0.
func countCell[N int | uint64](n N, colour terminal.Colour) terminal.Cell {
	if n == 0 {
		colour = ""
	}
	return colour.Cell(fmt.Sprint(n))
}

// variable returns the value of an environment variable, or "" if it is not set.
func (c *command) variable(name string) string {
	for _, v := range c.environ {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// colours reports whether the output may be coloured; see https://no-color.org.
func (c *command) colours() bool {
	return c.terminal && c.variable("NO_COLOR") == "" && c.variable("TERM") != "dumb"
}

// width returns the width of the terminal in characters, or 0 if the output is not a
// terminal and nothing needs to be truncated. COLUMNS overrides it.
func (c *command) width() int {
	const usual = 120
	if !c.terminal {
		return 0
	}
	if columns, err := strconv.Atoi(c.variable("COLUMNS")); err == nil && columns > 0 {
		return columns
	}
	if c.columns != nil {
		if columns, known := c.columns(); known {
			return columns
		}
	}
	return usual
}

// confirmLoss is confirm for a change that cannot be undone.
func (c *command) confirmLoss(ctx context.Context, yes bool, question string) error {
	return c.confirm(ctx, yes, question+" This cannot be undone.")
}

// confirm asks for confirmation of a change, unless yes is true. It returns an error if the
// command must not continue.
func (c *command) confirm(ctx context.Context, yes bool, question string) error {
	if yes {
		return nil
	}
	if !c.interactive {
		return fmt.Errorf("%w: without a terminal to confirm on, --yes is required: %s", commandline.ErrUsage, question)
	}
	switch answer := strings.ToLower(c.ask(ctx, question+" [y/N] ")); answer {
	case "y", "yes":
		return nil
	}
	fmt.Fprintln(c.stderr, "nothing was changed")
	return commandline.ErrReported
}

// ask asks a question on the terminal and returns the answer, or "" if ctx is done first.
func (c *command) ask(ctx context.Context, question string) string {
	return c.askBy(ctx, question, func() string {
		if c.lines == nil { // another question may have read from it
			c.lines = bufio.NewReader(c.stdin)
		}
		line, err := c.lines.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return ""
		}
		return line
	})
}

// askSecret is ask for a secret: the terminal does not show the answer.
func (c *command) askSecret(ctx context.Context, question string) string {
	read, restore, err := terminal.ReadSecret(c.stdin)
	if err != nil { // no terminal that shows anything
		return c.ask(ctx, question)
	}
	defer restore()
	return c.askBy(ctx, question, func() string {
		defer fmt.Fprintln(c.stderr)
		return read()
	})
}

// askBy is ask with a function that reads the answer.
func (c *command) askBy(ctx context.Context, question string, read func() string) string {
	fmt.Fprint(c.stderr, question)
	answer := make(chan string, 1)
	// A read from a terminal cannot be cancelled. After Ctrl-C, this goroutine ends with
	// the process.
	go func() { answer <- strings.TrimSpace(read()) }()
	select {
	case line := <-answer:
		return line
	case <-ctx.Done():
		fmt.Fprintln(c.stderr)
		return ""
	}
}

// addYes adds --yes to a command that asks for confirmation.
func addYes(cmd *cobra.Command, yes *bool) {
	cmd.Flags().BoolVar(yes, "yes", false, "do not ask for confirmation")
}
