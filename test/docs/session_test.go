package docs_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ndrbridge/test/docs"
	"ndrbridge/test/require"
)

// patience is how long a statement may take; some build programs.
const patience = 90 * time.Second

// statement is what a shell runs at once, such as a pipeline or a loop.
type statement struct {
	position string // of its block
	text     string
	output   string // what the block shows of its output, if shown
	shown    bool
}

// statementsOf returns the statements of a block in sh or console. Those of console are the
// lines after a $; the lines below each are its output.
func statementsOf(t *testing.T, b docs.Block) []statement {
	t.Helper()
	var all []statement
	text := ""
	for line := range strings.Lines(b.Text) {
		if b.Language == "console" {
			typed, ok := strings.CutPrefix(line, "$ ")
			if !ok && len(all) == 0 {
				t.Fatalf("%s: output without a command", b.Position)
			} else if !ok {
				all[len(all)-1].output += line
				continue
			}
			line = typed
		}
		if text += line; isComplete(t, text) {
			if !isComment(text) {
				all = append(all, statement{position: b.Position, text: text, shown: b.Language == "console"})
			}
			text = ""
		}
	}
	require.Equal(t, text, "", b.Position, "bash cannot read")
	return all
}

// isComplete reports whether bash needs no more lines to run a text.
func isComplete(t *testing.T, text string) bool {
	t.Helper()
	if strings.HasSuffix(text, "\\\n") {
		return false
	}
	command := exec.CommandContext(t.Context(), "bash", "-n")
	command.Stdin = strings.NewReader(text)
	output, err := command.CombinedOutput()
	return err == nil && len(output) == 0 // it only warns of an open here-document
}

// isComment reports whether a text has nothing to run.
func isComment(text string) bool {
	text = strings.TrimSpace(text)
	return text == "" || strings.HasPrefix(text, "#") && !strings.Contains(text, "\n")
}

// session is a bash into which the statements of a document are typed.
type session struct {
	bash   *exec.Cmd
	files  *os.File      // accepts the paths of scripts
	codes  *bufio.Reader // has the exit code of each
	folder string        // of the scripts and their outputs
	number int
}

// loop runs scripts in one shell, whose variables, folder and jobs remain.
const loop = `
set -o pipefail
while IFS= read -r -u 3 script; do
	. "$script" >"$script.out" 2>&1 </dev/null
	echo $? >&4
done
kill $(jobs -p) # the test has ended
`

// prelude is what the reader does between the statements because a document asks for it in
// its prose.
const prelude = `
start() {
	ndrbridge run --config ndrbridge.yaml >>bridge.out 2>>bridge.log &
	bridge=$!
	ready
}
ready() {
	until ndrbridge status --exit-code --config ndrbridge.yaml && ndrbridge status --config ndrbridge.yaml; do
		kill -0 $bridge || return 1
		sleep 0.05
	done >/dev/null 2>&1
}
stop() {
	kill $bridge
	wait $bridge
}
`

// newSession starts a shell in a folder. At the end of the test it ends with all processes
// that it has started.
func newSession(t *testing.T, home string, environment []string) *session {
	t.Helper()
	input, files, err := os.Pipe()
	require.NoError(t, err)
	codes, exits, err := os.Pipe()
	require.NoError(t, err)
	s := &session{
		bash:  exec.CommandContext(context.WithoutCancel(t.Context()), "bash", "-c", loop),
		files: files, codes: bufio.NewReader(deadlined{codes}), folder: t.TempDir(),
	}
	s.bash.Dir, s.bash.Env = home, environment
	s.bash.ExtraFiles = []*os.File{input, exits}
	s.bash.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, s.bash.Start())
	input.Close()
	exits.Close()
	t.Cleanup(func() {
		_, _ = s.run("kill $(jobs -p); wait")
		files.Close()
		_ = syscall.Kill(-s.bash.Process.Pid, syscall.SIGKILL) // its group may be empty
		_ = s.bash.Wait()
		codes.Close()
	})
	output, err := s.run(prelude)
	require.NoError(t, err, output)
	return s
}

// deadlined is the read end of a pipe at which each read has its deadline.
type deadlined struct{ *os.File }

func (d deadlined) Read(b []byte) (int, error) {
	if err := d.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	return d.File.Read(b)
}

// run types a text, waits for it and returns its output.
func (s *session) run(text string) (string, error) {
	s.number++
	path := filepath.Join(s.folder, strconv.Itoa(s.number))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintln(s.files, path); err != nil {
		return "", err
	}
	line, err := s.codes.ReadString('\n')
	output, _ := os.ReadFile(path + ".out")
	if err != nil {
		return string(output), fmt.Errorf("it does not end: %w", err)
	}
	code := strings.TrimSpace(line)
	const closed = "141" // a pipe that head closed
	if code != "0" && !(code == closed && strings.Contains(text, "| head")) {
		return string(output), fmt.Errorf("exit code %s", code)
	}
	return string(output), nil
}

var remark = regexp.MustCompile(`(?m)\s+#.*$`)

// serve types a text that runs until it is interrupted, and leaves it running. The bridge
// that it starts becomes ready.
func (s *session) serve(text string) (string, error) {
	text = strings.TrimSpace(remark.ReplaceAllString(text, ""))
	return s.run(text + " >>bridge.out 2>>bridge.log &\nbridge=$!\nready\n")
}

// interrupt types a text that runs until it is interrupted, and interrupts it after it has
// printed a line. A command of ndrbridge then succeeds; others may end with any exit code.
// What is watched is watched on a terminal, and make does not print what it runs.
func (s *session) interrupt(text string) (string, error) {
	text = strings.TrimSpace(remark.ReplaceAllString(text, ""))
	if strings.Contains(text, "--watch") {
		text = "script -qec " + strconv.Quote(text) + " /dev/null"
	}
	text = strings.Replace(text, "make ", "make --silent ", 1)
	path := filepath.Join(s.folder, fmt.Sprintf("%d.printed", s.number+1))
	if output, err := s.run(fmt.Sprintf("set -m\n{ %s\n} >%s 2>&1 &\ninterrupted=$!\nset +m\n", text, path)); err != nil {
		return output, err
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		output, ended := s.run("kill -0 $interrupted") // before its output is read: it may end by itself
		printed, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			return "", err
		}
		if bytes.Contains(printed, []byte("\n")) {
			break
		}
		if ended != nil {
			return output, fmt.Errorf("it ended and printed nothing: %w", ended)
		}
		if time.Now().After(deadline) {
			return "", fmt.Errorf("it printed nothing for %s", patience)
		}
	}
	output, err := s.run("kill -INT -$interrupted\nwait $interrupted\n")
	const interrupted = "exit code 130" // of jq after ndrbridge
	if err != nil && (!strings.Contains(text, "ndrbridge ") || err.Error() == interrupted) {
		err = nil
	}
	printed, _ := os.ReadFile(path)
	return string(printed) + output, err
}
