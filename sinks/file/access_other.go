//go:build !(darwin || linux)

package file

// writable cannot tell on this system: the first event will.
func writable(string) bool { return true }

// freeBytes cannot tell on this system.
func freeBytes(string) (bytes uint64, known bool) { return 0, false }
