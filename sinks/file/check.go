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
	folder := filepath.Dir(o.Path)
	failed := func(detail, advice string) []preflight.Finding {
		return []preflight.Finding{{Step: "file", Result: preflight.Failed, Detail: detail, Advice: advice}}
	}
	switch info, err := os.Stat(folder); {
	case errors.Is(err, fs.ErrNotExist):
		return failed("the folder "+folder+" does not exist", "make it, for the user that the bridge runs as, or correct path")
	case err != nil:
		return failed(err.Error(), "let the user that the bridge runs as reach it")
	case !info.IsDir():
		return failed(folder+" is no folder", "correct path")
	}
	if !writable(folder) {
		return failed("no file can be made in "+folder, "let the user that the bridge runs as write there: the file is made and rotated in it")
	}
	switch info, err := os.Stat(o.Path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return failed(err.Error(), "let the user that the bridge runs as reach it")
	case info.IsDir():
		return failed(o.Path+" is a folder", "correct path")
	case !writable(o.Path):
		return failed(o.Path+" cannot be written", "let the user that the bridge runs as write it")
	}
	found := []preflight.Finding{{Step: "file", Result: preflight.OK, Detail: o.Path + " can be written"}}
	if free, ok := freeBytes(folder); ok {
		found = append(found, room(o, free))
	}
	return found
}

// room holds what is free against what the files may come to.
func room(o Options, free uint64) preflight.Finding {
	const mega = 1 << 20
	most := uint64(o.MaxBytes) * uint64(o.Keep+1)
	f := preflight.Finding{Step: "room", Result: preflight.Remark, Detail: fmt.Sprintf("%d MiB are free", free/mega)}
	if o.MaxBytes > 0 {
		f.Detail += fmt.Sprintf(", and the files come to %d MiB", most/mega)
		if free < most {
			f.Advice = "make room, or lower rotate.max_bytes or rotate.keep"
		}
	}
	return f
}
