//go:build !(darwin || linux)

package disk

// Free is not supported on this system.
func Free(string) (bytes uint64, known bool) { return 0, false }
