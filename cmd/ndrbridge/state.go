package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/checkpoint"
	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/internal/admin"
)

func (c *command) stateCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "state",
		Short: "Show, back up and maintain the state file",
		Long: `The state is one file with the positions of the streams, the journal, the cursors of the
sinks and the dead letters. All commands but compact also work while the bridge is running.
In a cluster, they act on the state of the owner of the log, and members must run for all
of them but compact, which is not needed there.`,
		Example: `  ndrbridge state show
  ndrbridge state backup /var/backups/ndrbridge.db
  ndrbridge state rename lake datalake`,
	}, c.stateShowCommand(), c.stateBackupCommand(), c.stateCompactCommand(), c.stateForgetCommand(), c.stateRenameCommand())
}

// stateError adds advice to an error of opening the state at path, for commands that
// require the bridge to be stopped.
func stateError(path string, err error) error {
	switch {
	case errors.Is(err, checkpoint.ErrLocked):
		return fmt.Errorf("%s is in use by a running bridge: stop the bridge, then run this command again", path)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no state at %s: use the configuration that the bridge runs with, or check the path", absolute(path))
	}
	return err
}

func (c *command) stateBackupCommand() *cobra.Command {
	var force bool
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "backup FILE",
		Short: "Write a consistent copy of the state",
		Long: `Write a consistent copy of the state while the bridge keeps running. FILE is created
with mode 0600 only when it is complete and on disk; - is standard output. To restore
the copy, stop the bridge, replace the state file with the copy, and start the bridge.
Everything since the backup is then read and delivered again.

In a cluster, the copy is that of the owner. A member needs none, because NATS has the state
that it restores; the copy is a last resort, for ndrbridge cluster recover --from and
ndrbridge cluster export --from.`,
		Example: `  ndrbridge state backup /var/backups/ndrbridge.db
  ndrbridge state backup - | gzip > ndrbridge.db.gz`,
		Args:              exactly("FILE"),
		ValidArgsFunction: completeOne(completeFiles()),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.acting(cmd.Context(), func(control *admin.Client) error {
				if args[0] == "-" {
					return c.backupToOutput(cmd.Context(), control)
				}
				n, err := c.backupToFile(cmd.Context(), control, args[0], force, nil)
				if err != nil {
					return err
				}
				return c.print(struct {
					File  string `json:"file"`
					Bytes int64  `json:"bytes"`
				}{args[0], n}, "%s: %s", terminal.Printable(args[0]), terminal.Bytes(n))
			})
		},
	}))
	cmd.Flags().BoolVar(&force, "force", false, "replace an existing file")
	return cmd
}

func (c *command) backupToOutput(ctx context.Context, control *admin.Client) error {
	switch {
	case c.terminal:
		return fmt.Errorf("%w: the state is binary data and is not written to a terminal; redirect the output", commandline.ErrUsage)
	case c.asJSON:
		return fmt.Errorf("%w: --json requires a file, because the copy is written to standard output", commandline.ErrUsage)
	}
	return control.Backup(ctx, c.stdout)
}

// backupToFile writes the copy to a file, as checkpoint.WriteCopy does.
func (c *command) backupToFile(ctx context.Context, control *admin.Client, path string, force bool, finish func(path string) error) (n int64, err error) {
	status, err := control.Status(ctx)
	if err != nil {
		return 0, err
	}
	if err := replaceable(path, status.State.Path, force); err != nil {
		return 0, err
	}
	var w countingWriter
	err = terminal.NewProgress(c.stderr).While(func(time.Duration) string {
		return fmt.Sprintf("%s of %s written", terminal.Bytes(w.n.Load()), terminal.Bytes(status.State.FileBytes))
	}, func() error {
		n, err = checkpoint.WriteCopy(path, func(file io.Writer) error {
			w.w = file
			return control.Backup(ctx, &w)
		}, finish)
		return err
	})
	return n, err
}

// replaceable returns an error if a backup must not be written to path.
func replaceable(path, state string, force bool) error {
	there, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if own, err := os.Stat(state); err == nil && os.SameFile(own, there) {
		return fmt.Errorf("%s is the state itself: name another file", path)
	}
	switch {
	case !there.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	case !force:
		return fmt.Errorf("%s exists already: name another file, or replace it with --force", path)
	}
	return nil
}

// countingWriter counts the bytes that are written to w.
type countingWriter struct {
	w io.Writer
	n atomic.Int64
}

func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n.Add(int64(n))
	return n, err
}

func (c *command) stateCompactCommand() *cobra.Command {
	return c.withJSON(c.withConfig(&cobra.Command{
		Use:   "compact",
		Short: "Shrink the state file",
		Long: `Rewrite the state file without its free space. A state file never shrinks by itself: a
file that grew large, for example during a long outage of a sink, keeps its size and
reuses the free space. The new file is written beside the old one and replaces it when it
is complete, so the disk must have space for both. The bridge must be stopped.`,
		Example: "  ndrbridge state compact --config ndrbridge.yaml",
		Args:    commandline.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			config, err := c.load()
			if err != nil {
				return err
			}
			if config.Cluster.Enabled() {
				return fmt.Errorf("the state of a cluster is in NATS, and %s is a copy: to get its space back, stop the bridge, delete it, and start the bridge again", config.State)
			}
			var before, after int64
			err = terminal.NewProgress(c.stderr).While(func(since time.Duration) string {
				return "compacting for " + terminal.Duration(since)
			}, func() (err error) {
				before, after, err = checkpoint.Compact(config.State)
				return err
			})
			if err != nil {
				return stateError(config.State, err)
			}
			return c.print(struct {
				Before int64 `json:"before_bytes"`
				After  int64 `json:"after_bytes"`
			}{before, after}, "%s: %s before, %s now", config.State, terminal.Bytes(before), terminal.Bytes(after))
		},
	}))
}

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
	err = c.acting(ctx, func(control *admin.Client) error {
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
	store, err := checkpoint.Open(s.Path, checkpoint.Options{ReadOnly: true})
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
