package checkpoint_test

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/checkpointtest"
)

func TestStore(t *testing.T) {
	checkpointtest.Run(t, checkpointtest.Backend{
		Open: func(path string, o checkpoint.Options) (checkpointtest.Store, error) {
			return checkpoint.Open(path, o)
		},
		Crash: copyOpenFile,
	})
}

// copyOpenFile copies the file of a store that is open: what is in it when the
// process dies. The copy must not be torn by what the store trims meanwhile, so
// it is made until two are alike.
func copyOpenFile(path string) (string, error) {
	var last []byte
	for range 1000 {
		now, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		if last != nil && bytes.Equal(now, last) {
			return path + "+", os.WriteFile(path+"+", now, 0o600)
		}
		last = now
	}
	return "", errors.New("the file is never still")
}
