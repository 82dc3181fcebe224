//go:build darwin || linux

package file

import "syscall"

// writable reports whether the process may write a file, or in a folder.
func writable(path string) bool {
	const write = 2 // W_OK of access(2)
	return syscall.Access(path, write) == nil
}

// freeBytes is what is left for users of the disk that has the folder.
func freeBytes(folder string) (bytes uint64, known bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		return 0, false
	}
	return s.Bavail * uint64(s.Bsize), true
}
