package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ndrbridge/admin"
	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/transform"
)

func (c *command) tailCommand() *cobra.Command {
	var since, stream string
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "tail",
		Short: "Print events as they are journalled",
		Long: `Print the events of a running bridge as they are journalled, until Ctrl-C: a line
each for a person, or the whole CloudEvent with --json. --since begins with what
the journal still holds from a time on. Reading them here delays no sink, and moves
nothing.`,
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
				case cmd.Context().Err() != nil: // Ctrl-C is how it ends
					return nil
				case errors.Is(err, admin.ErrNotRunning):
					return fmt.Errorf("%w: start it with ndrbridge run, or name one that runs with --admin", err)
				}
				return err
			})
		},
	}))
	cmd.Flags().StringVar(&since, "since", "", "print first what the journal holds since -10m, beginning, or a time such as 2026-01-31T08:00:00Z")
	cmd.Flags().StringVar(&stream, "stream", "", "print one stream alone: detections, audit, records, records/NAME, or events")
	return cmd
}

func checkStream(stream string) error {
	known := []string{transform.StreamDetections, transform.StreamAudit, transform.StreamRecords, transform.StreamEvents}
	if name, ok := strings.CutPrefix(stream, transform.StreamRecords+"/"); ok && name != "" || stream == "" || slices.Contains(known, stream) {
		return nil
	}
	return fmt.Errorf("%w: --stream: %q is none of %s, or records/NAME", commandline.ErrUsage, stream, strings.Join(known, ", "))
}

// ofStream reports whether an event is of a stream; empty: any.
func ofStream(e transform.Event, stream string) bool {
	return stream == "" || stream == e.Stream() || stream == streamOf(e)
}

// streamOf is the stream of an event as commands name it.
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
	severity := fmt.Sprintf("%-5s", e.SeverityText)
	if tint := severityColour(e.SeverityText); tint != "" && c.colours() {
		severity = string(tint) + severity + "\x1b[0m"
	}
	line := fmt.Sprintf("%s  %s  %-10s %-11s  %-14s  %s  %s",
		at.UTC().Format("2006-01-02T15:04:05.000Z"), printable(e.Appliance), printable(streamOf(e)),
		e.Action(), printable(e.Subject), severity, printable(summary(e)))
	_, err := fmt.Fprintln(c.stdout, strings.TrimRight(line, " "))
	return err
}

func severityColour(text string) colour {
	switch {
	case strings.HasPrefix(text, "ERROR"), strings.HasPrefix(text, "FATAL"):
		return red
	case strings.HasPrefix(text, "WARN"):
		return yellow
	}
	return ""
}
