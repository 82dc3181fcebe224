//go:build unix

package boltfile

import (
	"io/fs"
	"strconv"
	"syscall"
)

// Identity returns a string that distinguishes a file from a copy of it, or "" if the file
// system provides none.
func Identity(info fs.FileInfo) string {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Ino != 0 {
		return strconv.FormatUint(uint64(stat.Ino), 10)
	}
	return ""
}
