package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/internal/fixture"
	"ndrbridge/transform"
	"ndrbridge/transform/match"
)

func (c *command) matchCommand() *cobra.Command {
	var count bool
	cmd := &cobra.Command{
		Use:   "match EXPRESSION",
		Short: "Try a match expression on events",
		Long: `Read events from standard input, one JSON object per line, as written by ndrbridge
tail --json and by file sinks, and print the events that match the expression. These are
the events that a sink with this match would receive. At the end, the number of
matching events is printed to standard error. An event for which the expression cannot
be evaluated is printed too, because a sink with on_error: send would send it, and the
reason is reported.`,
		Example: `  ndrbridge tail --since -1d --no-follow --json | ndrbridge try match 'detection.risk_score >= 80'
  ndrbridge try match --count 'event.stream == "audit" && audit.body.operation == "Login"' < events.jsonl`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%w: %s requires one argument, the expression in quotes, got %d", commandline.ErrUsage, cmd.CommandPath(), len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := match.Compile(args[0])
			if err != nil {
				return fmt.Errorf("%w: the expression: %w", commandline.ErrUsage, err)
			}
			events, matching := 0, 0
			for line, err := range eventLines(cmd.Context(), cmd.InOrStdin()) {
				if err != nil {
					return err
				}
				wanted, err := m.Matches(line.event)
				if err != nil {
					fmt.Fprintf(c.stderr, "line %d: %v\n", line.number, err)
				}
				events++
				if !wanted {
					continue
				}
				matching++
				if count {
					continue
				}
				if _, err := c.stdout.Write(append(line.text, '\n')); err != nil {
					return err
				}
			}
			if count {
				if _, err := fmt.Fprintln(c.stdout, matching); err != nil {
					return err
				}
			}
			fmt.Fprintf(c.stderr, "%d of %d events match\n", matching, events)
			return nil
		},
	}
	cmd.Flags().BoolVar(&count, "count", false, "print the number of matching events instead of the events")
	return cmd
}

// addFixture adds --fixture to a command that reads events.
func (c *command) addFixture(cmd *cobra.Command, names *[]string) {
	cmd.Flags().StringArrayVar(names, "fixture", nil, "use an example event: "+strings.Join(fixture.Names(), ", ")+"; can be repeated")
	c.completeFlag(cmd, "fixture", fixture.Names()...)
}

// fixtureLines returns the example events with these names, one per line.
func fixtureLines(names []string, event func(fixture.Spec) (transform.Event, error)) (io.Reader, error) {
	var lines bytes.Buffer
	for _, name := range names {
		e, err := event(fixture.Spec{Name: name})
		if err != nil {
			return nil, fmt.Errorf("%w: --fixture: %w", commandline.ErrUsage, err)
		}
		lines.Write(append(e.Structured(), '\n'))
	}
	return &lines, nil
}

// eventLine is an input line with an event in JSON, without surrounding white space.
type eventLine struct {
	number int // from 1
	text   []byte
	event  transform.Event
}

// eventLines reads events, one per line, until the end of the input or until ctx is
// cancelled. Empty lines are skipped. It yields at most one error, which names the line
// and ends the sequence.
func eventLines(ctx context.Context, events io.Reader) iter.Seq2[eventLine, error] {
	return func(yield func(eventLine, error) bool) {
		lines := bufio.NewReader(events)
		for number, last := 1, false; !last && ctx.Err() == nil; number++ {
			text, err := lines.ReadBytes('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				yield(eventLine{}, fmt.Errorf("reading events: %w", err))
				return
			}
			last = err != nil
			if text = bytes.TrimSpace(text); len(text) == 0 {
				continue
			}
			e, err := fixture.Parse(text)
			if err != nil {
				yield(eventLine{}, fmt.Errorf("line %d: %w; give one event per line, as ndrbridge tail --json prints them", number, err))
				return
			}
			if !yield(eventLine{number, text, e}, nil) {
				return
			}
		}
	}
}
