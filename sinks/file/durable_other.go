//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package file

import "os"

// lock does nothing: this system has no advisory locks.
func lock(*os.File) error { return nil }

// syncDirectory does nothing: this system cannot sync directories.
func syncDirectory(string) error { return nil }
