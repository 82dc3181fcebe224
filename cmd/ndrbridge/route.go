package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/internal/pipeline/routing"
	"ndrbridge/transform"
)

func (c *command) routeCommand() *cobra.Command {
	var only, fixtures []string
	cmd := c.withJSON(c.withConfig(&cobra.Command{
		Use:               "route [FILE]",
		ValidArgsFunction: completeOne(completeFiles("json", "jsonl")),
		Short:             "Show which sinks get an event, and why",
		Long: `Read events, one JSON object per line, as written by ndrbridge tail --json and by file
sinks, and show for each event which sinks of the configuration send it, and why the
others do not. The events are read from FILE, or from standard input. With --fixture,
example events are used instead.

Each sink has one of these results:

  sent         it sends the event
  filtered     its match is not true; the reason is the first part that is not
  dead_letter  the event cannot be sent, for example because a template fails for it
  nothing      it opens tickets, and this event needs none

The results are those of a running bridge whose targets accept everything. A new sink
sends only the events that were recorded after its start, and a paused or halted one
sends later: ndrbridge status shows that. Nothing is contacted, and files of secrets and
certificates need not be readable.

With --json, each line is an object with id, type, source, and sinks with sink, result
and reasons.`,
		Example: `  ndrbridge tail --since -1h --json --no-follow | ndrbridge try route --config ndrbridge.yaml
  ndrbridge try route --config ndrbridge.yaml --fixture detection.created
  ndrbridge try route --config ndrbridge.yaml --sink chat --sink pager events.jsonl`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return argumentsError(cmd, "at most one file", args)
			case len(args) == 1 && len(fixtures) > 0:
				return fmt.Errorf("%w: --fixture cannot be combined with a file of events", commandline.ErrUsage)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := c.loadWithoutSecrets()
			if err != nil {
				return err
			}
			router, err := routing.New(config, version, only...)
			if err != nil {
				return err
			}
			input := cmd.InOrStdin()
			switch {
			case len(fixtures) > 0:
				if input, err = fixtureLines(fixtures, router.Fixture); err != nil {
					return err
				}
			case len(args) == 1:
				file, err := os.Open(args[0])
				if err != nil {
					return fmt.Errorf("read events: %w", err)
				}
				defer func() { _ = file.Close() }() // it was only read
				input = file
			}
			return c.routeLines(cmd.Context(), router, input)
		},
	}))
	cmd.Flags().StringArrayVar(&only, "sink", nil, "show only this sink; can be repeated")
	completeFlagBy(cmd, "sink", c.completeNames(sinkNames))
	c.addFixture(cmd, &fixtures)
	return cmd
}

func (c *command) routeLines(ctx context.Context, router *routing.Router, input io.Reader) error {
	more := false
	for line, err := range eventLines(ctx, input) {
		if err != nil {
			return err
		}
		if err := c.printRoutes(line.event, router.Route(line.event), more); err != nil {
			return err
		}
		more = true
	}
	return ctx.Err()
}

// routedEvent is an event with its results as printed with --json.
type routedEvent struct {
	ID     string          `json:"id"`
	Type   string          `json:"type"`
	Source string          `json:"source"`
	Sinks  []routing.Route `json:"sinks"`
}

// printRoutes prints the results of an event, which follows others if more is true.
func (c *command) printRoutes(e transform.Event, routes []routing.Route, more bool) error {
	if c.asJSON {
		return c.printJSON(routedEvent{e.ID, e.Type, e.Source, routes})
	}
	separator := ""
	if more {
		separator = "\n"
	}
	if _, err := fmt.Fprintf(c.stdout, separator+"%s %s of %s\n", terminal.Printable(e.Type), terminal.Printable(e.ID), terminal.Printable(e.Source)); err != nil {
		return err
	}
	t := terminal.NewTable("SINK", "RESULT", "REASON")
	for _, r := range routes {
		colour := terminal.Yellow
		switch r.Result {
		case routing.Sent:
			colour = terminal.Green
		case routing.DeadLetter:
			colour = terminal.Red
		}
		name, result := r.Sink, colour.Cell(string(r.Result))
		for _, reason := range r.Reasons {
			t.Add(name, result, reason)
			name, result = "", terminal.Cell{}
		}
	}
	t.Print(c.stdout, c.width(), c.colours())
	return nil
}
