package pipeline

import (
	"errors"
	"io/fs"
	"os"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/preflight/finding"
	"ndrbridge/sinks"
	"ndrbridge/sinks/file"
)

// CheckStatePath checks whether the state could be created or written. It neither opens
// nor creates a file.
func CheckStatePath(path string) finding.Finding {
	f := file.CheckPath("state", path, "state")[0]
	_, missing := os.Stat(path)
	if _, err := os.Lstat(path); f.Result == finding.OK && errors.Is(missing, fs.ErrNotExist) && err == nil {
		f.Result, f.Detail, f.Advice = finding.Failed, path+" is a link to a file that does not exist", "remove the link, or correct state"
	}
	return f
}

// openState opens the state for a start. It calls CheckStatePath first because its
// findings give better advice than the error of opening.
func openState(config *configs.Config) (*checkpoint.Store, error) {
	if f := CheckStatePath(config.State); f.Result == finding.Failed {
		return nil, &PartError{f.Step, &sinks.Advised{Err: errors.New(f.Detail), To: f.Advice}}
	}
	return checkpoint.Open(config.State, checkpoint.Options{Limits: limits(config)})
}
