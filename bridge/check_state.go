package bridge

import (
	"errors"
	"io/fs"
	"os"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/preflight"
	"ndrbridge/sinks/file"
)

// CheckStatePath checks whether a bridge could make or write the state of a
// configuration. It returns one finding, and neither opens nor makes a file.
func CheckStatePath(config *configs.Config) []preflight.Finding {
	return preflight.Of("configuration", file.CheckPath("state", config.State, "state"))
}

// checkState checks whether a bridge could start with the state of a configuration. It
// reads the file as a start does, which takes a while if the file is large and was not
// closed in order, and changes nothing. No bridge can start with the state meanwhile.
func checkState(config *configs.Config) []preflight.Finding {
	found := CheckStatePath(config)
	if found[0].Result != preflight.OK {
		return found
	}
	if _, err := os.Stat(config.State); errors.Is(err, fs.ErrNotExist) {
		return found
	}
	store, err := checkpoint.Open(config.State, checkpoint.Options{ReadOnly: true, LockWait: -1})
	if err == nil {
		err = store.Close()
	}
	f := preflight.Finding{Target: found[0].Target, Step: "state", Result: preflight.Failed}
	switch {
	case err == nil:
		return found
	case errors.Is(err, checkpoint.ErrLocked):
		// Expected beside a running bridge.
		f.Result, f.Detail = preflight.Remark, config.State+" is in use, most likely by the bridge, which runs: another cannot start with it, and its content was not checked"
	case errors.Is(err, checkpoint.ErrNewer):
		f.Detail, f.Advice = err.Error(), "see which version wrote it, or restore a backup that this version made"
	case errors.Is(err, checkpoint.ErrDamaged):
		f.Detail, f.Advice = err.Error(), "restore a backup, or move the file away"
	default:
		f.Detail, f.Advice = err.Error(), "let the user that the bridge runs as read and write it, or correct state"
	}
	return []preflight.Finding{f}
}
