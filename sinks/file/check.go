package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"ndrbridge/internal/fileaccess"
	"ndrbridge/internal/finding"
	"ndrbridge/sinks"
)

// Check checks that the file can be written, without creating or changing it.
func (s *Sink) Check(context.Context, sinks.Trial) []finding.Finding {
	o := s.options
	if o.Path == stdout {
		return []finding.Finding{{Step: "file", Result: finding.OK, Detail: "events go to standard output"}}
	}
	found := CheckPath("file", o.Path, "path")
	if free, ok := fileaccess.Free(filepath.Dir(o.Path)); ok && found[0].Result == finding.OK {
		found = append(found, freeSpace(o, free))
	}
	return found
}

// CheckPath checks that the file at path can be written, or created if it is missing,
// and that other files can be created in its folder. It creates and changes nothing.
// It returns one finding, for step. key is the configuration key of the path.
func CheckPath(step, path, key string) []finding.Finding {
	if full, err := filepath.Abs(path); err == nil {
		path = full // a relative path says little without the working directory of the bridge
	}
	folder := filepath.Dir(path)
	failed := func(detail, advice string) []finding.Finding {
		return []finding.Finding{{Step: step, Result: finding.Failed, Detail: detail, Advice: advice}}
	}
	switch info, err := os.Stat(folder); {
	case errors.Is(err, fs.ErrNotExist):
		return failed("the folder "+folder+" does not exist", "create it, writable for the user that the bridge runs as (this process runs as "+fileaccess.Process()+"), or correct "+key)
	case err != nil:
		return failed(err.Error()+"; this process runs as "+fileaccess.Process(), "grant the user that the bridge runs as access to it")
	case !info.IsDir():
		return failed(folder+" is not a folder", "correct "+key)
	}
	if !fileaccess.Writable(folder) {
		return failed("no file can be created in "+folder+": "+fileaccess.Describe(folder), "make it writable for the user that the bridge runs as: files are created and replaced in it; or correct "+key)
	}
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return failed(err.Error()+"; this process runs as "+fileaccess.Process(), "grant the user that the bridge runs as access to it")
	case info.IsDir():
		return failed(path+" is a folder", "correct "+key)
	case !fileaccess.Writable(path):
		return failed(path+" cannot be written: "+fileaccess.Describe(path), "make it writable for the user that the bridge runs as, or correct "+key)
	}
	return []finding.Finding{{Step: step, Result: finding.OK, Detail: path + " can be written"}}
}

// freeSpace compares the free bytes with the largest total size of the files.
func freeSpace(o Options, free uint64) finding.Finding {
	const mega = 1 << 20
	most := uint64(o.MaxBytes) * uint64(o.Keep+1)
	f := finding.Finding{Step: "space", Result: finding.Remark, Detail: fmt.Sprintf("%d MiB are free", free/mega)}
	if o.MaxBytes > 0 {
		f.Detail += fmt.Sprintf("; the files may take %d MiB", most/mega)
		if free < most {
			f.Advice = "free disk space, or lower rotate.max_bytes or rotate.keep"
		}
	}
	return f
}
