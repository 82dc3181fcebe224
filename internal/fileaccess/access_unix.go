//go:build darwin || linux

package fileaccess

import (
	"io/fs"
	"syscall"
)

// Writable reports whether the process may write the file, or create files in the
// folder, at path.
func Writable(path string) bool {
	const write = 2 // W_OK of access(2)
	return syscall.Access(path, write) == nil
}

// owner returns the number of the user that a file belongs to.
func owner(info fs.FileInfo) (uid int, known bool) {
	stat, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return 0, false
	}
	return int(stat.Uid), true
}
