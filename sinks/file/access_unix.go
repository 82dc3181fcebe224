//go:build darwin || linux

package file

import "syscall"

// writable reports whether the process may write the file, or create files in the
// folder, at path.
func writable(path string) bool {
	const write = 2 // W_OK of access(2)
	return syscall.Access(path, write) == nil
}
