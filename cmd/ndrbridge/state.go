package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/admin"
	"ndrbridge/checkpoint"
	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/configs"
)

func (c *command) stateCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "state",
		Short: "Show, back up and maintain the state file",
		Long: `The state is one file with the positions of the streams, the journal, the cursors of the
sinks and the dead letters. show and backup also work while the bridge is running;
compact, forget and rename require it to be stopped.`,
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
		return fmt.Errorf("there is no state at %s: the bridge has not run with this configuration yet", path)
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
Everything since the backup is then read and delivered again.`,
		Example: `  ndrbridge state backup /var/backups/ndrbridge.db
  ndrbridge state backup - | gzip > ndrbridge.db.gz`,
		Args: exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.acting(func(control admin.Control) error {
				if args[0] == "-" {
					return c.backupToOutput(cmd.Context(), control)
				}
				n, err := c.backupToFile(cmd.Context(), control, args[0], force)
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

func (c *command) backupToOutput(ctx context.Context, control admin.Control) error {
	switch {
	case c.terminal:
		return fmt.Errorf("%w: the state is binary data and is not written to a terminal; redirect the output", commandline.ErrUsage)
	case c.asJSON:
		return fmt.Errorf("%w: --json requires a file, because the copy is written to standard output", commandline.ErrUsage)
	}
	return control.Backup(ctx, c.stdout)
}

// backupToFile writes the copy to a temporary file in the same directory and renames it to
// path when it is complete. It returns the size in bytes.
func (c *command) backupToFile(ctx context.Context, control admin.Control, path string, force bool) (_ int64, err error) {
	status, err := control.Status(ctx)
	if err != nil {
		return 0, err
	}
	if err := replaceable(path, status.State.Path, force); err != nil {
		return 0, err
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // of mode 0600
	if err != nil {
		return 0, err
	}
	defer os.Remove(file.Name()) // fails after the rename
	w := &countingWriter{w: file}
	err = whileWorking(func(time.Duration) {
		fmt.Fprintf(c.stderr, "%s of %s written\n", terminal.Bytes(w.n.Load()), terminal.Bytes(status.State.FileBytes))
	}, func() error { return control.Backup(ctx, w) })
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return 0, err
	}
	return w.n.Load(), os.Rename(file.Name(), path)
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
			config, err := configs.Load(c.configFile, c.environ)
			if err != nil {
				return err
			}
			var before, after int64
			err = whileWorking(func(since time.Duration) {
				fmt.Fprintf(c.stderr, "compacting for %s\n", terminal.Duration(since))
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
