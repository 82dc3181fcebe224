//go:build darwin || linux

package disk

import "syscall"

// Free returns the bytes available to unprivileged users on the file system that has the
// folder. It reports whether they are known.
func Free(folder string) (bytes uint64, known bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		return 0, false
	}
	return s.Bavail * uint64(s.Bsize), true
}
