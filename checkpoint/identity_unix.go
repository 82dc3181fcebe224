//go:build unix

package checkpoint

import (
	"io/fs"
	"strconv"
	"syscall"
)

// identity returns a string that distinguishes a file from a copy of it, or "" if the file
// system provides none.
func identity(info fs.FileInfo) string {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Ino != 0 {
		return strconv.FormatUint(uint64(stat.Ino), 10)
	}
	return ""
}
