package bridge

import (
	"crypto/sha256"
	"fmt"
	"os"
	"reflect"
)

// fingerprint is all that a part is made by: parts of equal ones are alike.
type fingerprint struct {
	settings []any
	files    map[string][sha256.Size]byte // what the files held that are read once
}

// newFingerprint reads the files, so that a change of what they hold is seen.
func newFingerprint(files []string, settings ...any) (fingerprint, error) {
	made := fingerprint{settings: settings, files: make(map[string][sha256.Size]byte)}
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			return fingerprint{}, fmt.Errorf("read a file that the configuration names: %w", err)
		}
		made.files[name] = sha256.Sum256(content)
	}
	return made, nil
}

func (b fingerprint) equal(other fingerprint) bool { return reflect.DeepEqual(b, other) }
