// Command licences prints the licence texts of everything that the released programs
// contain: of each module linked into them on any released platform, and of Go itself.
//
//	go run ./deploy/licences ./cmd/ndrbridge > THIRD_PARTY_LICENSES.txt
//
// A module without a licence text is an error: it must not be shipped.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "licences: %v\n", err)
		os.Exit(1)
	}
}

// platforms are the values of GOOS for which programs are released. The linked modules do
// not differ between architectures.
var platforms = []string{"linux", "darwin", "windows"}

// module is a module as printed by go list.
type module struct {
	Path, Version, Dir string
	Main               bool
}

// run writes the licence texts of the modules that the packages link, sorted by module.
func run(packages []string, out io.Writer) error {
	if len(packages) == 0 {
		return errors.New("name the packages of the programs, such as ./cmd/ndrbridge")
	}
	modules := make(map[string]module)
	for _, goos := range platforms {
		if err := linked(goos, packages, modules); err != nil {
			return err
		}
	}
	goroot, err := output(nil, "go", "env", "GOROOT")
	if err != nil {
		return err
	}
	all := append([]module{{Path: "Go", Version: runtime.Version(), Dir: string(bytes.TrimSpace(goroot))}},
		slices.SortedFunc(maps.Values(modules), func(a, b module) int { return bytes.Compare([]byte(a.Path), []byte(b.Path)) })...)
	for _, m := range all {
		if err := m.print(out); err != nil {
			return err
		}
	}
	return nil
}

// linked adds the modules that packages link on a platform to the map to.
func linked(goos string, packages []string, to map[string]module) error {
	list, err := output([]string{"GOOS=" + goos, "CGO_ENABLED=0"}, "go", append([]string{"list", "-deps", "-json=Module"}, packages...)...)
	if err != nil {
		return err
	}
	for decoder := json.NewDecoder(bytes.NewReader(list)); ; {
		var p struct{ Module *module }
		switch err := decoder.Decode(&p); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("decode the output of go list: %w", err)
		case p.Module != nil && !p.Module.Main:
			to[p.Module.Path] = *p.Module
		}
	}
}

func output(env []string, name string, args ...string) ([]byte, error) {
	command := exec.Command(name, args...)
	command.Env = append(os.Environ(), env...)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", command, err)
	}
	return out, nil
}

// legal matches the names of files with a licence or a notice.
var legal = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|unlicense)([-._].*)?$`)

// print writes the legal texts of a module, including those of code that it vendors.
func (m module) print(out io.Writer) error {
	var files []string
	err := filepath.WalkDir(m.Dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != m.Dir && (m.Path == "Go" || entry.Name() == "testdata" || entry.Name() == "_examples"):
			return fs.SkipDir
		case !entry.IsDir() && legal.MatchString(entry.Name()) && filepath.Ext(entry.Name()) != ".go":
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("find the licence of %s: %w", m.Path, err)
	}
	if len(files) == 0 {
		return fmt.Errorf("%s %s has no licence text in %s; it must not be shipped", m.Path, m.Version, m.Dir)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read the licence of %s: %w", m.Path, err)
		}
		name, err := filepath.Rel(m.Dir, file)
		if err != nil {
			return fmt.Errorf("read the licence of %s: %w", m.Path, err)
		}
		if _, err := fmt.Fprintf(out, "==== %s %s: %s\n\n%s\n\n", m.Path, m.Version, filepath.ToSlash(name), bytes.TrimSpace(text)); err != nil {
			return fmt.Errorf("write the licence of %s: %w", m.Path, err)
		}
	}
	return nil
}
