package bridge

import (
	"crypto/sha256"
	"fmt"
	"os"
	"reflect"
)

// blueprint is all that a part is made by: parts of equal ones are alike.
type blueprint struct {
	settings []any
	files    map[string][sha256.Size]byte // what the files held that are read once
}

// newBlueprint reads the files, so that a change of what they hold is seen.
func newBlueprint(files []string, settings ...any) (blueprint, error) {
	made := blueprint{settings: settings, files: make(map[string][sha256.Size]byte)}
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			return blueprint{}, fmt.Errorf("read a file that the configuration names: %w", err)
		}
		made.files[name] = sha256.Sum256(content)
	}
	return made, nil
}

func (b blueprint) equal(other blueprint) bool { return reflect.DeepEqual(b, other) }
