package configs

import (
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
)

var listIndex = regexp.MustCompile(`\[\d+\]`)

// pathKeys returns the keys whose values are paths of files. In a key, # stands for the
// index of a list item.
func pathKeys() map[string]bool {
	keys := map[string]bool{"state": true, "sinks[#].file.path": true}
	for _, k := range keysOf(reflect.TypeFor[Config](), "", nil) {
		switch {
		case strings.HasSuffix(k.path, fileSuffix):
			keys[k.path] = true
		case strings.HasSuffix(k.path, fileSuffix+"s"):
			keys[k.path+"[#]"] = true
		}
	}
	return keys
}

// isPath reports whether the value of the key at path is the path of a file.
func (p *sourceLines) isPath(path string) bool {
	return p.paths[listIndex.ReplaceAllString(path, "[#]")]
}

// within returns the path of a file for one that is relative to folder. An empty path, an
// absolute one, and -, which is standard output, stay the same.
func within(folder, path string) string {
	if path == "" || path == "-" || folder == "." || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}
