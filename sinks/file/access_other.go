//go:build !(darwin || linux)

package file

// writable always reports true: this system offers no such check.
func writable(string) bool { return true }

// freeBytes is not supported on this system.
func freeBytes(string) (bytes uint64, known bool) { return 0, false }
