package bridge

import (
	"crypto/sha256"
	"fmt"
	"os"
	"reflect"
)

// fingerprint identifies everything a part is made from: parts with equal fingerprints
// are interchangeable.
type fingerprint struct {
	settings []any
	files    map[string][sha256.Size]byte // hashes of the files that are read only once
}

// newFingerprint hashes the files, so that a change of their content is noticed.
func newFingerprint(files []string, settings ...any) (fingerprint, error) {
	fp := fingerprint{settings: settings, files: make(map[string][sha256.Size]byte)}
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			return fingerprint{}, fmt.Errorf("read a file that the configuration names: %w", err)
		}
		fp.files[name] = sha256.Sum256(content)
	}
	return fp, nil
}

func (f fingerprint) equal(other fingerprint) bool { return reflect.DeepEqual(f, other) }
