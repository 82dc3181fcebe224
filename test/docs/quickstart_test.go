package docs_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"ndrbridge/test/loopback"
)

// TestTheQuickStartWorks runs the commands of the quick start in a shell, in the folder of
// the repository, with an empty home. It only replaces the ports of 127.0.0.1 with free
// ones.
func TestTheQuickStartWorks(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	script := onFreePorts(t, "set -eu\n"+scriptOf(t, "docs/quickstart.md"))

	const patience = 5 * time.Minute // including the build
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	bash := exec.CommandContext(ctx, "bash")
	bash.Dir = root
	bash.Stdin = strings.NewReader(script)
	bash.Env = append(os.Environ(), "HOME="+home)
	for _, name := range []string{"GOENV", "GOPATH", "GOCACHE", "GOMODCACHE"} { // otherwise found through HOME
		bash.Env = append(bash.Env, name+"="+goEnv(t, name))
	}
	// Background processes end with the shell.
	bash.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	bash.Cancel = func() error { return syscall.Kill(-bash.Process.Pid, syscall.SIGKILL) }
	bash.WaitDelay = time.Second
	var output bytes.Buffer
	bash.Stdout, bash.Stderr = &output, &output
	if err := bash.Start(); err != nil {
		t.Fatal(err)
	}
	err := bash.Wait()
	_ = syscall.Kill(-bash.Process.Pid, syscall.SIGKILL) // the group may be empty
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(home, "ndrbridge", "bridge.log"))
		t.Fatalf("%v\n%s\nits log:\n%s", err, &output, log)
	}
	for _, want := range []string{
		"the configuration is valid", // check
		"running for",                // status
		"Z  hq  ",                    // tail
		`{"specversion":"1.0"`,       // the sink's file
		"sink high-risk",             // the second check
		"detections since",           // verify
	} {
		if !strings.Contains(output.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, &output)
		}
	}
}

// scriptOf returns the commands of a document that a reader types.
func scriptOf(t *testing.T, path string) string {
	t.Helper()
	var script strings.Builder
	for _, d := range read(t) {
		if d.Path != path {
			continue
		}
		for _, b := range d.Blocks {
			script.WriteString(b.Script())
		}
	}
	if script.Len() == 0 {
		t.Fatalf("%s has nothing to type", path)
	}
	return script.String()
}

// onFreePorts replaces each loopback port in a script with a free one.
func onFreePorts(t *testing.T, script string) string {
	t.Helper()
	free := make(map[string]string)
	return regexp.MustCompile(`127\.0\.0\.1:[0-9]+`).ReplaceAllStringFunc(script, func(address string) string {
		if free[address] == "" {
			free[address] = loopback.Free(t)
		}
		return free[address]
	})
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	value, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(value))
}
