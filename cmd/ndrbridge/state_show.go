package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/admin"
	"ndrbridge/checkpoint"
	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
)

func (c *command) stateShowCommand() *cobra.Command {
	return c.withJSON(c.withControl(&cobra.Command{
		Use:   "show",
		Short: "Show the contents of the state file",
		Long: `Show the contents of the state file: its size, the journal, the number of pending ticket
commands, the position of each stream, and the cursor, lag and dead letters of each sink.
Positions and cursors are shown only while no bridge is running. Nothing is changed.`,
		Example: "  ndrbridge state show --config ndrbridge.yaml",
		Args:    commandline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			shown, err := c.stateShown(cmd.Context())
			if err != nil {
				return err
			}
			if c.asJSON {
				return c.printJSON(shown)
			}
			c.printState(shown, time.Now())
			return nil
		},
	}))
}

// stateShown is the content of a state. Its JSON is stable: fields may be added, but never
// change their meaning. Fields that can be read only from the file are absent while a
// bridge is running.
type stateShown struct {
	Running bool `json:"running"`
	admin.StateStatus
	Layout  int           `json:"layout,omitzero"` // version of the file's layout
	First   uint64        `json:"first,omitzero"`  // sequence numbers of the journal's ends
	Last    uint64        `json:"last,omitzero"`
	Streams []streamShown `json:"streams"`
	Sinks   []sinkShown   `json:"sinks"`
}

type streamShown struct {
	Appliance   string          `json:"appliance"`
	Stream      string          `json:"stream"`
	Position    json.RawMessage `json:"position,omitempty"` // as the source wrote it
	DeadLetters uint64          `json:"dead_letters"`
}

// sinkShown is a sink in a state.
type sinkShown struct {
	admin.SinkStatus
	Configured bool    `json:"configured"`
	Paused     bool    `json:"paused"`
	Cursor     *uint64 `json:"cursor,omitempty"` // sequence number of the last event that the sink completed
}

// stateShown returns the state as reported by the bridge or, if no bridge is running, as
// read from the file.
func (c *command) stateShown(ctx context.Context) (shown stateShown, err error) {
	err = c.acting(func(control admin.Control) error {
		status, err := control.Status(ctx)
		shown = stateOf(status)
		return err
	})
	if err != nil || shown.Running {
		return shown, err
	}
	return shown, shown.read(ctx)
}

// stateOf returns the part of the state that the status contains.
func stateOf(s admin.Status) stateShown {
	shown := stateShown{Running: s.Running, StateStatus: s.State}
	for _, a := range s.Appliances {
		for _, stream := range a.Streams {
			shown.Streams = append(shown.Streams, streamShown{Appliance: a.Name, Stream: stream.Stream, DeadLetters: stream.DeadLetters})
		}
	}
	for i, sink := range slices.Concat(s.Sinks, s.Unconfigured) {
		shown.Sinks = append(shown.Sinks, sinkShown{SinkStatus: sink, Configured: i < len(s.Sinks), Paused: sink.State == "paused"})
	}
	return shown
}

// read adds what can be read only from the file. It does not change the file.
func (s *stateShown) read(ctx context.Context) (err error) {
	store, err := checkpoint.Open(s.Path, checkpoint.Options{ReadOnly: true, LockWait: -1})
	if err != nil {
		return stateError(s.Path, err)
	}
	defer commandline.Close(store.Close, &err)
	stats, err := store.Stats(ctx)
	if err != nil {
		return err
	}
	s.Layout, s.First, s.Last = stats.Layout, stats.First, stats.Last
	for i := range s.Streams {
		stream := &s.Streams[i]
		position, err := store.Position(ctx, checkpoint.Source{Appliance: stream.Appliance, Stream: stream.Stream})
		if err != nil {
			return err
		}
		if json.Valid(position) {
			stream.Position = position
		}
	}
	for i := range s.Sinks {
		if known, ok := stats.Sinks[s.Sinks[i].Name]; ok {
			s.Sinks[i].Cursor = &known.Cursor
		}
	}
	return nil
}

func (c *command) printState(s stateShown, now time.Time) {
	fmt.Fprintf(c.stdout, "state    %s, %s", terminal.Printable(s.Path), terminal.Bytes(s.FileBytes))
	if s.Layout > 0 {
		fmt.Fprintf(c.stdout, ", layout %d", s.Layout)
	}
	fmt.Fprintln(c.stdout)
	fmt.Fprintf(c.stdout, "journal  %s", journalText(s.Journal))
	if s.Last > 0 {
		fmt.Fprintf(c.stdout, ", numbers %d to %d", s.First, s.Last)
	}
	fmt.Fprintln(c.stdout)
	if s.Commands != (admin.CommandCounts{}) {
		fmt.Fprintf(c.stdout, "tickets  %d commands pending, %d done\n", s.Commands.Pending, s.Commands.Done)
	}
	fmt.Fprintln(c.stdout)
	streams := terminal.NewTable("APPLIANCE", "STREAM", "DEAD", "POSITION")
	for _, stream := range s.Streams {
		streams.Add(stream.Appliance, stream.Stream, countCell(stream.DeadLetters, terminal.Yellow), cmp.Or(string(stream.Position), "-"))
	}
	streams.Print(c.stdout, c.width(), c.colours())
	fmt.Fprintln(c.stdout)
	sinks := terminal.NewTable("SINK", "CURSOR", "LAG", "BYTES", "OLDEST", "DEAD", "BYTES", "REDELIVER", "SKIPPED", "NOTE")
	for _, sink := range s.Sinks {
		cursor, note := "-", terminal.Cell{}
		if sink.Cursor != nil {
			cursor = fmt.Sprint(*sink.Cursor)
		}
		switch {
		case !sink.Configured:
			note = terminal.Yellow.Cell("not configured")
		case sink.Paused:
			note = terminal.Cyan.Cell("paused")
		}
		sinks.Add(sink.Name, cursor, sink.LagEvents, terminal.Bytes(sink.LagBytes), terminal.Ago(sink.Oldest, now),
			countCell(sink.DeadLetters, terminal.Yellow), terminal.Bytes(sink.DeadLetterBytes), sink.Redeliveries, sink.Skipped, note)
	}
	sinks.Print(c.stdout, c.width(), c.colours())
	if s.Running {
		fmt.Fprintln(c.stdout, "\nPositions and cursors are shown only while the bridge is stopped.")
	}
}
