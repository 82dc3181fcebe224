package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/internal/admin"
	"ndrbridge/transform"
)

func (c *command) tailCommand() *cobra.Command {
	var o tailOptions
	var since, until string
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "tail",
		Short: "Print events as they are journalled",
		Long: `Print the events of a running bridge as they are journalled, until Ctrl-C: one line per
event, or the complete CloudEvent with --json. This command does not delay sinks and
changes nothing.

  --since TIME   first print what the journal holds from that time on
  -n N           first print the last N events of the journal, of those that the other
                 flags select; at most 10000, and at most 64 MiB of them
  --until TIME   print what the journal holds up to that time, and exit
  --no-follow    exit at the end of the journal; without --since, --until and -n, the
                 last 10 events are printed

Of these events, only those are printed that all of these flags select:

  --stream NAME  of a stream: detections, audit, records, records/NAME, or events
  --match EXPR   that match an expression, written like match of a sink. An event for
                 which it cannot be evaluated is printed too, and the reason reported
  --sink NAME    that this sink of the configuration receives according to its match and
                 on_error

The times are those at which the bridge journalled the events. With --no-follow or
--until, the command also works while no bridge is running.`,
		Example: `  ndrbridge tail --stream detections
  ndrbridge tail --no-follow -n 20 --match 'detection.risk_score >= 80'
  ndrbridge tail --since yesterday --until today --sink soc
  ndrbridge tail --since -10m --json | jq .data`,
		Args: commandline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complete(cmd, since, until); err != nil {
				return err
			}
			keep, err := c.tailFilter(o)
			if err != nil {
				return err
			}
			return c.acting(cmd.Context(), func(control *admin.Client) error {
				return c.tail(cmd.Context(), control, o, keep)
			})
		},
	}))
	c.withTime(cmd, &since, "since", "first print the journal from this time on")
	c.withTime(cmd, &until, "until", "print the journal up to this time, and exit")
	cmd.Flags().IntVarP(&o.lines, "lines", "n", 0, "first print this many of the journal's last events that are selected")
	cmd.Flags().BoolVar(&o.noFollow, "no-follow", false, "exit at the end of the journal")
	cmd.Flags().StringVar(&o.stream, "stream", "", "print only this stream: "+strings.Join(streamNames, ", ")+", or records/NAME")
	cmd.Flags().StringVar(&o.match, "match", "", "print only events that match this expression")
	cmd.Flags().StringVar(&o.sink, "sink", "", "print only events that this sink of the configuration receives")
	completeFlagBy(cmd, "stream", c.completeNames(tailStreams))
	completeFlagBy(cmd, "sink", c.completeNames(sinkNames))
	return cmd
}

// streamNames are the values of --stream, besides records/NAME.
var streamNames = []string{transform.StreamDetections, transform.StreamAudit, transform.StreamRecords, transform.StreamEvents}

func checkStream(stream string) error {
	if name, ok := strings.CutPrefix(stream, transform.StreamRecords+"/"); ok && name != "" || stream == "" || slices.Contains(streamNames, stream) {
		return nil
	}
	return fmt.Errorf("%w: --stream: %q is not one of %s, or records/NAME", commandline.ErrUsage, stream, strings.Join(streamNames, ", "))
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
	word := e.SeverityWord()
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
