package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"ndrbridge/preflight"
)

// Check looks whether the file can be written, without making or changing it.
func Check(o Options) []preflight.Finding {
	if o.Path == Stdout {
		return []preflight.Finding{{Step: "file", Result: preflight.OK, Detail: "events go to standard output"}}
	}
	found := CheckPath("file", o.Path, "path")
	if free, ok := freeBytes(filepath.Dir(o.Path)); ok && found[0].Result == preflight.OK {
		found = append(found, freeSpace(o, free))
	}
	return found
}

// CheckPath looks whether a file can be written that is made if it is missing, and others
// beside it, without making or changing any. It returns one finding, of the step. key is
// the key of the configuration that has the path.
func CheckPath(step, path, key string) []preflight.Finding {
	folder := filepath.Dir(path)
	failed := func(detail, advice string) []preflight.Finding {
		return []preflight.Finding{{Step: step, Result: preflight.Failed, Detail: detail, Advice: advice}}
	}
	switch info, err := os.Stat(folder); {
	case errors.Is(err, fs.ErrNotExist):
		return failed("the folder "+folder+" does not exist", "make it, for the user that the bridge runs as, or correct "+key)
	case err != nil:
		return failed(err.Error(), "let the user that the bridge runs as reach it")
	case !info.IsDir():
		return failed(folder+" is no folder", "correct "+key)
	}
	if !writable(folder) {
		return failed("no file can be made in "+folder, "let the user that the bridge runs as write there: files are made and replaced in it")
	}
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return failed(err.Error(), "let the user that the bridge runs as reach it")
	case info.IsDir():
		return failed(path+" is a folder", "correct "+key)
	case !writable(path):
		return failed(path+" cannot be written", "let the user that the bridge runs as write it")
	}
	return []preflight.Finding{{Step: step, Result: preflight.OK, Detail: path + " can be written"}}
}

// space holds what is free against what the files may come to.
func freeSpace(o Options, free uint64) preflight.Finding {
	const mega = 1 << 20
	most := uint64(o.MaxBytes) * uint64(o.Keep+1)
	f := preflight.Finding{Step: "space", Result: preflight.Remark, Detail: fmt.Sprintf("%d MiB are free", free/mega)}
	if o.MaxBytes > 0 {
		f.Detail += fmt.Sprintf(", and the files come to %d MiB", most/mega)
		if free < most {
			f.Advice = "make space, or lower rotate.max_bytes or rotate.keep"
		}
	}
	return f
}
