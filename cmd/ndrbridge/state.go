package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"ndrbridge/checkpoint"
)

func (c *command) stateCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "state",
		Short: "Show, back up and tidy the state file",
		Long: `The state is one file: the sources' positions, the journal, the sinks' cursors and
the dead letters. show and backup act on a running bridge too; compact, forget and
rename want the bridge to be stopped.`,
		Example: `  ndrbridge state show
  ndrbridge state backup /var/backups/ndrbridge.db
  ndrbridge state rename lake datalake`,
	}, c.stateShowCommand(), c.stateBackupCommand(), c.stateCompactCommand(), c.stateForgetCommand(), c.stateRenameCommand())
}

// stateError says what to do about the error of a command that wants the state of
// a bridge that does not run.
func stateError(path string, err error) error {
	switch {
	case errors.Is(err, checkpoint.ErrLocked):
		return fmt.Errorf("%s is in use by a bridge that runs: stop it first, then run this again", path)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no state at %s: the bridge has not run with this configuration yet", path)
	}
	return err
}
