// Package fileaccess checks who may use a file or a folder, and describes that and the user
// of the process for messages about files that cannot be read or written.
package fileaccess

import (
	"fmt"
	"os"
	"os/user"
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

// named returns the name of a user with the number.
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
