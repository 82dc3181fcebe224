package configs

import (
	"path/filepath"
	"strings"
)

// isPath reports whether the value of the key at path is the path of a file. path is none of a
// key in a map, whose names are chosen by users.
func isPath(path string) bool {
	key, _, _ := strings.Cut(path[strings.LastIndexByte(path, '.')+1:], "[")
	return strings.HasSuffix(key, fileSuffix) || strings.HasSuffix(key, fileSuffix+"s") ||
		path == "state" || path == "cluster.nats.embedded.folder" || path == "cluster.archive.folder" || strings.HasSuffix(path, "].file.path")
}

// within returns the path of a file for one that is relative to folder. An empty path, an
// absolute one, and -, which is standard output, stay the same.
func within(folder, path string) string {
	if path == "" || path == "-" || folder == "." || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}

// stateFolder returns the default folder of the state for that of the first file: the same, but
// for the folder of packages, where no state belongs, that of their systemd unit.
func stateFolder(first string) string {
	if full, err := filepath.Abs(first); err == nil && full == "/etc/ndrbridge" {
		return "/var/lib/ndrbridge"
	}
	return first
}
