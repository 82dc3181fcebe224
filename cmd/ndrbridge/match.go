package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/transform"
	"ndrbridge/transform/match"
)

func (c *command) matchCommand() *cobra.Command {
	var count bool
	cmd := &cobra.Command{
		Use:   "match EXPRESSION",
		Short: "Try a sink's match over events",
		Long: `Read events from standard input, an event in JSON a line, as ndrbridge tail --json
and file sinks write them, and print those that match the expression: those that a
sink with this match would be sent. How many they are of how many is told at the end.
An event over which the expression fails matches, as it does in a sink; the reason is
told.`,
		Example: `  ndrbridge tail --since -1d --json | ndrbridge match 'detection.risk_score >= 80'
  ndrbridge match --count 'event.stream == "audit" && audit.body.operation == "Login"' < events.jsonl`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%w: %s takes one argument, the expression in quotes, and %d were given", commandline.ErrUsage, cmd.CommandPath(), len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := match.Compile(args[0])
			if err != nil {
				return fmt.Errorf("%w: the expression: %w", commandline.ErrUsage, err)
			}
			var matching io.Writer = c.stdout
			if count {
				matching = io.Discard
			}
			tally, err := c.filter(cmd.Context(), m, cmd.InOrStdin(), matching)
			if err != nil {
				return err
			}
			if count {
				if _, err := fmt.Fprintln(c.stdout, tally.matching); err != nil {
					return err
				}
			}
			fmt.Fprintf(c.stderr, "%d of %d events match\n", tally.matching, tally.events)
			return nil
		},
	}
	cmd.Flags().BoolVar(&count, "count", false, "print how many events match, not the events")
	return cmd
}

// matchTally counts events.
type matchTally struct{ events, matching int }

// filter copies the lines of events that match, until events ends or ctx does.
func (c *command) filter(ctx context.Context, m *match.Match, events io.Reader, matching io.Writer) (t matchTally, err error) {
	lines := bufio.NewReader(events)
	for number := 1; ctx.Err() == nil; number++ {
		line, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return t, fmt.Errorf("reading events: %w", err)
		}
		last := err != nil
		if line = bytes.TrimSpace(line); len(line) > 0 {
			e, err := parseLine(line)
			if err != nil {
				return t, fmt.Errorf("line %d: %w", number, err)
			}
			wanted, err := m.Matches(e)
			if err != nil {
				fmt.Fprintf(c.stderr, "line %d: %v\n", number, err)
			}
			t.events++
			if wanted {
				t.matching++
				if _, err := matching.Write(append(line, '\n')); err != nil {
					return t, err
				}
			}
		}
		if last {
			break
		}
	}
	return t, nil
}

// parseLine parses an event that may have been written anew since the bridge
// encoded it, with white space or none.
func parseLine(line []byte) (transform.Event, error) {
	compact := jsontext.Value(bytes.Clone(line))
	if err := compact.Compact(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return transform.Event{}, err
	}
	return transform.Parse(compact)
}
