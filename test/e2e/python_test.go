//go:build e2e

package e2e

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// installPython returns a folder with the programs of Python packages, which are installed for
// this test: python and those that the packages bring. requirements names the file that pins
// their versions.
func installPython(t *testing.T, requirements string) (programs string) {
	t.Helper()
	need(t, "python3", "Python with its module venv")
	folder := t.TempDir()
	start(t, exec.Command("python3", "-m", "venv", folder)).succeed(t, time.Minute)
	programs = filepath.Join(folder, "bin")
	install := exec.Command(filepath.Join(programs, "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements)
	start(t, install).succeed(t, 3*time.Minute)
	return programs
}
