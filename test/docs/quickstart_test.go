package docs_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The quick start is typed into a shell from top to bottom, in the folder of the
// repository, by somebody whose home is empty. Each 127.0.0.1:PORT of the page is
// replaced by one with a port that is free here, and nothing else.
func TestTheQuickStartWorks(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	script := onFreePorts(t, "set -eu\n"+scriptOf(t, "docs/quickstart.md"))

	const patience = 5 * time.Minute // it is built first
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	bash := exec.CommandContext(ctx, "bash")
	bash.Dir = root
	bash.Stdin = strings.NewReader(script)
	bash.Env = append(os.Environ(), "HOME="+home)
	for _, name := range []string{"GOENV", "GOPATH", "GOCACHE", "GOMODCACHE"} { // which are found by HOME otherwise
		bash.Env = append(bash.Env, name+"="+goEnv(t, name))
	}
	// What it starts in the background ends with it.
	bash.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	bash.Cancel = func() error { return syscall.Kill(-bash.Process.Pid, syscall.SIGKILL) }
	bash.WaitDelay = time.Second
	var output bytes.Buffer
	bash.Stdout, bash.Stderr = &output, &output
	if err := bash.Start(); err != nil {
		t.Fatal(err)
	}
	err := bash.Wait()
	_ = syscall.Kill(-bash.Process.Pid, syscall.SIGKILL) // there may be nobody left
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
			t.Errorf("nowhere does it print %q:\n%s", want, &output)
		}
	}
}

// scriptOf is what a reader types of a document.
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

// onFreePorts gives each port of loopback that a script names another one, which
// was free when it was asked for.
func onFreePorts(t *testing.T, script string) string {
	t.Helper()
	free := make(map[string]string)
	var held []net.Listener // until all are found, so that no two are one
	defer func() {
		for _, l := range held {
			l.Close()
		}
	}()
	return regexp.MustCompile(`127\.0\.0\.1:[0-9]+`).ReplaceAllStringFunc(script, func(address string) string {
		if free[address] == "" {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, l)
			free[address] = l.Addr().String()
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
