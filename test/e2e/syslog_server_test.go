//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

// syslogServer is a syslog receiver that writes the MSG of each message as a line of a file.
type syslogServer struct {
	address string
	file    string
	command func() *exec.Cmd
	running *process
}

// startSyslog starts rsyslogd or syslog-ng. certificate is empty for a server without TLS.
func startSyslog(t testing.TB, program, certificate, key string) *syslogServer {
	t.Helper()
	folder := t.TempDir()
	s := &syslogServer{address: loopback.Free(t), file: filepath.Join(folder, "messages")}
	_, port, _ := net.SplitHostPort(s.address)
	var text string
	var arguments []string
	config := filepath.Join(folder, "conf")
	switch program {
	case "rsyslogd":
		driver := ""
		if certificate != "" {
			driver = ` streamDriver.name="gtls" streamDriver.mode="1" streamDriver.authMode="anon"`
		}
		text = fmt.Sprintf(`
global(workDirectory=%q maxMessageSize="64k" defaultNetstreamDriverCertFile=%q defaultNetstreamDriverKeyFile=%q)
module(load="imtcp"%s)
input(type="imtcp" address="127.0.0.1" port=%q)
template(name="message" type="string" string="%%msg%%\n")
action(type="omfile" file=%q template="message")
`, folder, certificate, key, driver, port, s.file)
		arguments = []string{"-n", "-f", config, "-i", filepath.Join(folder, "pid")}
		if modules := unpacked("usr/lib/*/rsyslog"); modules != "" {
			arguments = append(arguments, "-M", modules)
		}
	case "syslog-ng":
		transport := `transport("tcp")`
		if certificate != "" {
			transport = fmt.Sprintf(`transport("tls") tls(cert-file(%q) key-file(%q) peer-verify(no))`, certificate, key)
		}
		text = fmt.Sprintf(`@version: 3.38
source network { syslog(ip("127.0.0.1") port(%s) %s); };
destination messages { file(%q template("$MSG\n")); };
log { source(network); destination(messages); };
`, port, transport, s.file)
		arguments = []string{
			"-F", "--no-caps", "-f", config, "-R", filepath.Join(folder, "persist"),
			"--pidfile", filepath.Join(folder, "pid"), "-c", filepath.Join(folder, "control"),
		}
		if modules := unpacked("usr/lib/syslog-ng/[0-9]*"); modules != "" {
			arguments = append(arguments, "--module-path", modules)
		}
	}
	require.NoError(t, os.WriteFile(config, []byte(text), 0o600))
	path := syslogProgram(t, program)
	libraries := strings.Join([]string{unpacked("usr/lib/*-linux-gnu*"), unpacked("lib/*-linux-gnu*"), unpacked("usr/lib/syslog-ng")}, ":")
	s.command = func() *exec.Cmd {
		command := exec.Command(path, arguments...)
		if libraries != "::" {
			command.Env = append(os.Environ(), "LD_LIBRARY_PATH="+libraries)
		}
		return command
	}
	s.start(t)
	return s
}

// unpacked returns the path that matches a pattern in the folder of unpacked packages; empty
// if there is none.
func unpacked(pattern string) string {
	if folder := os.Getenv("NDRBRIDGE_TEST_SYSLOG"); folder != "" {
		if found, _ := filepath.Glob(filepath.Join(folder, pattern)); len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

// syslogProgram returns the path of rsyslogd or syslog-ng.
func syslogProgram(t testing.TB, name string) string {
	t.Helper()
	if path := unpacked("usr/sbin/" + name); path != "" {
		return path
	}
	for _, path := range []string{name, "/usr/sbin/" + name} {
		if found, err := exec.LookPath(path); err == nil {
			return found
		}
	}
	t.Fatalf("%s is not installed: run .ci/syslog FOLDER, and set NDRBRIDGE_TEST_SYSLOG to FOLDER", name)
	return ""
}

// start starts the server, also again, and waits until it accepts connections.
func (s *syslogServer) start(t testing.TB) {
	t.Helper()
	s.running = start(t, s.command())
	eventually(t, 30*time.Second, func() error {
		if !s.running.running() {
			t.Fatalf("the server ended at once\n%s", s.running.output.end())
		}
		c, err := net.Dial("tcp", s.address)
		if err == nil {
			c.Close()
		}
		return err
	})
}

// received returns the messages in the server's file, once it has ended.
func (s *syslogServer) received(t testing.TB) [][]byte {
	t.Helper()
	s.running.terminate(t)
	text, err := os.ReadFile(s.file)
	require.NoError(t, err)
	return bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
}
