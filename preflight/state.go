package preflight

import (
	"errors"
	"io/fs"
	"os"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/pipeline"
	"ndrbridge/preflight/finding"
)

// checkState checks whether a bridge could start with the state of a configuration, and
// returns one finding. It changes nothing. It reads the file as a start does, which
// takes a while if the file is large and was not closed cleanly; if quick is set, it
// does not read such a file in full. No bridge can start with the state meanwhile.
func checkState(config *configs.Config, quick bool) []finding.Finding {
	found := finding.Of(configuration, []finding.Finding{pipeline.CheckStatePath(config.State)})
	if found[0].Result != finding.OK {
		return found
	}
	if _, err := os.Stat(config.State); errors.Is(err, fs.ErrNotExist) {
		return found
	}
	store, err := checkpoint.Open(config.State, checkpoint.Options{ReadOnly: true, Quick: quick, LockWait: -1})
	if err == nil {
		err = store.Close()
	}
	f := finding.Finding{Target: found[0].Target, Step: "state", Result: finding.Failed}
	switch {
	case err == nil:
		return found
	case errors.Is(err, checkpoint.ErrLocked):
		// Expected beside a running bridge.
		f.Result, f.Detail = finding.Remark, config.State+" is in use, most likely by the running bridge: no second bridge can start with it, and its content was neither checked nor compared with the appliances; ndrbridge status shows the appliances that were replaced"
	case errors.Is(err, checkpoint.ErrNewer):
		f.Detail, f.Advice = err.Error(), "run the version that wrote it, or restore a backup made by this version"
	case errors.Is(err, checkpoint.ErrDamaged):
		f.Detail, f.Advice = err.Error(), "restore a backup, or move the file away"
	default:
		f.Detail, f.Advice = err.Error(), "let the user that the bridge runs as read and write it, or correct state"
	}
	return []finding.Finding{f}
}
