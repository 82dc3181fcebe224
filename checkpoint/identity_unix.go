//go:build unix

package checkpoint

import (
	"io/fs"
	"strconv"
	"syscall"
)

// identity tells a file from a copy of it. It is empty where the file system has
// nothing of the kind.
func identity(info fs.FileInfo) string {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Ino != 0 {
		return strconv.FormatUint(uint64(stat.Ino), 10)
	}
	return ""
}
