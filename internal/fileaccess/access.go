// Package fileaccess checks who may use a file or a folder and how much space there is, and
// describes that and the user of the process for messages about files that cannot be used.
package fileaccess

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
)

// Describe returns the owner and the mode of the file or folder at path, as far as they are
// known, and the user that the process runs as: "it belongs to root and has mode 0755; this
// process runs as ndrbridge (uid 998)".
func Describe(path string) string {
	text := "this process runs as " + Process()
	info, err := os.Stat(path)
	if err != nil {
		return text
	}
	of := fmt.Sprintf("it has mode %04o", info.Mode().Perm())
	if uid, known := owner(info); known {
		of = fmt.Sprintf("it belongs to %s and has mode %04o", nameOf(uid), info.Mode().Perm())
	}
	return of + "; " + text
}

// Exposed returns how other users of this machine may read or replace the file at path, such
// as "everybody on this machine may read it", and the command that ends that. Both are empty
// if none may, or if the file cannot be examined.
func Exposed(path string) (problem, fix string) {
	file, err := os.Stat(path)
	if err != nil {
		return "", ""
	}
	folder := filepath.Dir(path)
	above, err := os.Stat(folder)
	// In a folder with the sticky bit, only the owner of a file replaces it.
	open := err == nil && above.Mode()&fs.ModeSticky == 0
	const groupWrites, othersWrite, othersRead = 0o020, 0o002, 0o004
	switch mode := file.Mode().Perm(); {
	case mode&othersWrite != 0:
		return "everybody on this machine may write " + path, "chmod go-w,o= " + path
	case mode&othersRead != 0:
		return "everybody on this machine may read " + path, "chmod g-w,o= " + path
	case open && above.Mode().Perm()&othersWrite != 0:
		return "everybody on this machine may replace " + path + ", because everybody may write its folder", "chmod o-w " + folder
	case mode&groupWrites != 0:
		return "the group of " + path + " may write it", "chmod g-w " + path
	case open && above.Mode().Perm()&groupWrites != 0:
		return "the group of the folder of " + path + " may replace it", "chmod g-w " + folder
	}
	return "", ""
}

// Process returns the user that the process runs as.
func Process() string {
	if uid := os.Geteuid(); uid >= 0 {
		return named(uid)
	}
	if u, err := user.Current(); err == nil { // Windows has no numbers
		return u.Username
	}
	return "an unknown user"
}

// named returns the name and the number of a user.
func named(uid int) string {
	name := nameOf(uid)
	if number := strconv.Itoa(uid); name != number {
		return fmt.Sprintf("%s (uid %s)", name, number)
	}
	return "uid " + strconv.Itoa(uid)
}

// nameOf returns the name of a user, or its number if it has none here, as in most
// containers.
func nameOf(uid int) string {
	number := strconv.Itoa(uid)
	if u, err := user.LookupId(number); err == nil {
		return u.Username
	}
	return number
}
