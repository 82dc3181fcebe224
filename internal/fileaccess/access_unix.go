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

// Free returns the bytes available to unprivileged users on the file system that has the
// folder. It reports whether they are known.
func Free(folder string) (bytes uint64, known bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		return 0, false
	}
	return s.Bavail * uint64(s.Bsize), true
}
