package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ndrbridge/admin"
	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/sinks/webhook/card"
	"ndrbridge/transform"
)

func (c *command) tailCommand() *cobra.Command {
	var since, stream string
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "tail",
		Short: "Print events as they are journalled",
		Long: `Print the events of a running bridge as they are journalled, until Ctrl-C: one line per
event, or the complete CloudEvent with --json. With --since, the events that the journal
still holds from that time on are printed first. This command does not delay sinks and
changes nothing.`,
		Example: `  ndrbridge tail --stream detections
  ndrbridge tail --since -10m --json | jq .data`,
		Args: commandline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var from admin.From
			if since != "" {
				var err error
				if from.Since, err = parseTime("since", since); err != nil {
					return err
				}
			}
			if err := checkStream(stream); err != nil {
				return err
			}
			return c.acting(func(control admin.Control) error {
				err := control.Tail(cmd.Context(), from, func(e transform.Event) error {
					if !ofStream(e, stream) {
						return nil
					}
					return c.printEvent(e)
				})
				switch {
				case cmd.Context().Err() != nil: // Ctrl-C is the normal end
					return nil
				case errors.Is(err, admin.ErrNotRunning):
					return fmt.Errorf("%w: start it with ndrbridge run, or give the address of a running one with --admin", err)
				}
				return err
			})
		},
	}))
	cmd.Flags().StringVar(&since, "since", "", "first print the journal from this time on: -10m, beginning, or a time such as 2026-01-31T08:00:00Z")
	cmd.Flags().StringVar(&stream, "stream", "", "print only this stream: detections, audit, records, records/NAME, or events")
	return cmd
}

func checkStream(stream string) error {
	known := []string{transform.StreamDetections, transform.StreamAudit, transform.StreamRecords, transform.StreamEvents}
	if name, ok := strings.CutPrefix(stream, transform.StreamRecords+"/"); ok && name != "" || stream == "" || slices.Contains(known, stream) {
		return nil
	}
	return fmt.Errorf("%w: --stream: %q is not one of %s, or records/NAME", commandline.ErrUsage, stream, strings.Join(known, ", "))
}

// ofStream reports whether an event belongs to a stream. An empty stream matches any.
func ofStream(e transform.Event, stream string) bool {
	return stream == "" || stream == e.Stream() || stream == streamOf(e)
}

// streamOf returns the stream of an event in the form that commands use, such as
// records/NAME.
func streamOf(e transform.Event) string {
	if e.Stream() != transform.StreamRecords {
		return e.Stream()
	}
	_, rest, _ := strings.Cut(e.Source, "://")
	_, path, _ := strings.Cut(rest, "/")
	return path
}

func (c *command) printEvent(e transform.Event) error {
	if c.asJSON {
		_, err := c.stdout.Write(append(slices.Clip(e.Structured()), '\n'))
		return err
	}
	at := e.Time
	if at.IsZero() {
		at = e.RecordedTime
	}
	word := card.SeverityOf(e)
	severity := fmt.Sprintf("%-8s", word)
	if c.colours() {
		severity = severityColour(word).Apply(severity)
	}
	line := fmt.Sprintf("%s  %s  %-10s %-11s  %-14s  %s  %s",
		at.UTC().Format("2006-01-02T15:04:05.000Z"), terminal.Printable(e.Appliance), terminal.Printable(streamOf(e)),
		e.Action(), terminal.Printable(e.Subject), severity, terminal.Printable(terminal.Summary(e)))
	_, err := fmt.Fprintln(c.stdout, strings.TrimRight(line, " "))
	return err
}

func severityColour(severity string) terminal.Colour {
	switch severity {
	case "critical", "high":
		return terminal.Red
	case "medium":
		return terminal.Yellow
	}
	return ""
}
