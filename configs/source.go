package configs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Source says where a configuration comes from.
type Source struct {
	// Paths are the files and folders to read, in order. Of a folder, its files whose names
	// end in .yaml or .yml are read in lexical order; hidden files and folders in it are
	// left out. Values of a later file take precedence: mappings are merged by key, lists
	// of items with a name by that name, and everything else is replaced.
	Paths []string
	// Defaults are read if Paths is empty: the first of these that exists.
	Defaults []string
	// Environ is the environment in the form of os.Environ. Its variables take precedence
	// over the files.
	Environ []string
	// WithoutSecrets means that the files of secrets and certificates need not be readable,
	// because nothing is contacted.
	WithoutSecrets bool
}

// DefaultPaths returns the files that commands look for if no configuration was named.
func DefaultPaths() []string { return []string{"ndrbridge.yaml", "/etc/ndrbridge/ndrbridge.yaml"} }

// ErrNothing is returned by Load if the source has no files, and the environment
// configures neither appliances nor sinks.
var ErrNothing = errors.New("no configuration file was named")

// Files returns the files that Load reads, in order. A folder is listed at each call.
// It returns an error if one of them does not exist, or a folder has no such files.
func (s Source) Files() ([]string, error) {
	paths := s.Paths
	if len(paths) == 0 {
		exists := func(path string) bool {
			_, err := os.Stat(path)
			return !errors.Is(err, fs.ErrNotExist)
		}
		if i := slices.IndexFunc(s.Defaults, exists); i >= 0 {
			paths = s.Defaults[i : i+1]
		}
	}
	var files []string
	for _, path := range paths {
		if path == "" {
			return nil, errors.New("read the configuration: its path is empty; name a file or a folder")
		}
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return nil, unreadable(path, err)
		case !info.IsDir():
			files = append(files, path) // even a pipe, as in --config <(command)
			continue
		}
		inside, err := filesOf(path)
		if err != nil {
			return nil, err
		}
		if len(inside) == 0 {
			return nil, fmt.Errorf("read the configuration: the folder %s has no files whose names end in .yaml or .yml; add one, or name another path", path)
		}
		files = append(files, inside...)
	}
	return files, nil
}

// filesOf returns the configuration files in a folder, in lexical order.
func filesOf(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, unreadable(folder, err)
	}
	var files []string
	for _, entry := range entries {
		name := entry.Name()
		if extension := filepath.Ext(name); strings.HasPrefix(name, ".") || extension != ".yaml" && extension != ".yml" {
			continue
		}
		path := filepath.Join(folder, name)
		info, err := os.Stat(path) // files of a Kubernetes ConfigMap are symbolic links
		switch {
		case err != nil:
			return nil, unreadable(path, err)
		case info.Mode().IsRegular():
			files = append(files, path)
		case !info.IsDir():
			return nil, fmt.Errorf("read the configuration %s: it is not a regular file; remove it from the folder", path)
		}
	}
	return files, nil
}

// unreadable returns the error for a file or a folder that cannot be read.
func unreadable(path string, err error) error {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		err = failed.Err // without the system call and the path
	}
	return fmt.Errorf("read the configuration %s: %w%s", path, err, fileAdvice(err))
}

// file is a configuration file.
type file struct {
	name   string // as in errors
	folder string // to which relative paths in it are relative
	data   []byte
}

// maxFile is the maximum size of a configuration file.
const maxFile = 16 << 20

func readFile(path string) (file, error) {
	f, err := os.Open(path)
	if err != nil {
		return file{}, unreadable(path, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return file{}, unreadable(path, err)
	case len(data) > maxFile:
		return file{}, fmt.Errorf("read the configuration %s: it is larger than %s; name another file", path, Size(maxFile))
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return file{}, unreadable(path, err)
	}
	return file{path, filepath.Dir(absolute), data}, nil
}

// read returns the contents of the files. There must be one, unless the environment sets a key
// whose variable has one of the prefixes.
func (s Source) read(prefixes ...string) ([]file, error) {
	paths, err := s.Files()
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 && !s.sets(prefixes) {
		looked := ""
		if len(s.Defaults) > 0 {
			looked = ", and there is no " + strings.Join(s.Defaults, " or ")
		}
		return nil, fmt.Errorf("%w%s: name a file with --config or NDRBRIDGE_CONFIG, or make one with ndrbridge config new", ErrNothing, looked)
	}
	files := make([]file, len(paths))
	for i, path := range paths {
		if files[i], err = readFile(path); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// sets reports whether the environment sets a key whose variable has one of the prefixes.
func (s Source) sets(prefixes []string) bool {
	has := func(variable string) bool {
		return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(variable, prefix) })
	}
	for variable, value := range variables(s.Environ) {
		if value != "" && !foreign(variable, value) && has(variable) {
			return true
		}
	}
	return false
}
