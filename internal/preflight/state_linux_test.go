package preflight_test

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"ndrbridge/configs"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/preflight"
	"ndrbridge/test/findingtest"
	"ndrbridge/test/require"
)

// withoutCapabilities calls f on a thread that may do no more than its user, even if that
// is root. f must not start goroutines that depend on it.
func withoutCapabilities(t *testing.T, f func()) {
	t.Helper()
	done := make(chan syscall.Errno)
	go func() {
		runtime.LockOSThread() // and the thread ends with the goroutine
		header := struct {
			version uint32
			pid     int32
		}{version: 0x20080522} // of this thread
		var none [2]struct{ effective, permitted, inheritable uint32 }
		_, _, errno := syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none)), 0)
		if errno == 0 {
			f()
		}
		done <- errno
	}()
	require.Equal(t, <-done, 0, "give capabilities up")
}

func TestCheckReportsAFolderThatCannotBeWritten(t *testing.T) {
	locked := filepath.Join(t.TempDir(), "locked")
	require.NoError(t, os.Mkdir(locked, 0o500))
	yaml := "state: " + locked + "/state.db\nadmin: {listen: \"127.0.0.1:0\"}\n" +
		"appliances: [{name: hq, url: \"http://127.0.0.1:1\", api_key: k}]\nsinks: [{name: log, file: {path: \"-\"}}]\n"
	config := require.Value(configs.Parse("ndrbridge.yaml", []byte(yaml), nil))(t)
	var found []finding.Finding
	withoutCapabilities(t, func() { found = preflight.CheckSettings(t.Context(), config, "test") })
	findingtest.Expect(t, found, findingtest.Row{Step: "state", Result: finding.Failed, Detail: "no file can be created in " + locked, Advice: "user"})
}
