package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
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
		Example: `  ndrbridge tail --since -1d --json | ndrbridge match 'detection.risk_score >= 80'
  ndrbridge match --count 'event.stream == "audit" && audit.body.operation == "Login"' < events.jsonl`,
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
			var matching io.Writer = c.stdout
			if count {
				matching = io.Discard
			}
			counts, err := c.filter(cmd.Context(), m, cmd.InOrStdin(), matching)
			if err != nil {
				return err
			}
			if count {
				if _, err := fmt.Fprintln(c.stdout, counts.matching); err != nil {
					return err
				}
			}
			fmt.Fprintf(c.stderr, "%d of %d events match\n", counts.matching, counts.events)
			return nil
		},
	}
	cmd.Flags().BoolVar(&count, "count", false, "print the number of matching events instead of the events")
	return cmd
}

// matchCounts counts the events that were read and those that match.
type matchCounts struct{ events, matching int }

// filter copies the lines of matching events, until the end of events or until ctx is
// cancelled.
func (c *command) filter(ctx context.Context, m *match.Match, events io.Reader, matching io.Writer) (t matchCounts, err error) {
	for line, err := range eventLines(ctx, events) {
		if err != nil {
			return t, err
		}
		wanted, err := m.Matches(line.event)
		if err != nil {
			fmt.Fprintf(c.stderr, "line %d: %v\n", line.number, err)
		}
		t.events++
		if wanted {
			t.matching++
			if _, err := matching.Write(append(line.text, '\n')); err != nil {
				return t, err
			}
		}
	}
	return t, nil
}
