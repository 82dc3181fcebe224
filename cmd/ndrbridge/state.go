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
