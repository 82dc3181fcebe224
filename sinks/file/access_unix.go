//go:build darwin || linux

package file

import "syscall"

// writable reports whether the process may write the file, or create files in the
// folder, at path.
func writable(path string) bool {
	const write = 2 // W_OK of access(2)
	return syscall.Access(path, write) == nil
}

// freeBytes returns the bytes available to unprivileged users on the file system
// that holds folder.
func freeBytes(folder string) (bytes uint64, known bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		return 0, false
	}
	return s.Bavail * uint64(s.Bsize), true
}
