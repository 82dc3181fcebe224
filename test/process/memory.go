// Package process reads the memory and the CPU time of processes on Linux and runs tests in
// processes of their own.
package process

import (
	"os"
	"strconv"
	"strings"
)

// Memory returns the anonymous memory of a process (RssAnon) and its peak resident memory
// (VmHWM), including mapped files, in bytes. Both are 0 if the process has ended, and on
// systems other than Linux.
func Memory(pid int) (anon, peak int64) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(status)) {
		fields := strings.Fields(line) // VmHWM: 123 kB
		if len(fields) != 3 {
			continue
		}
		kB, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			continue
		}
		switch fields[0] {
		case "RssAnon:":
			anon = kB << 10
		case "VmHWM:":
			peak = kB << 10
		}
	}
	return anon, peak
}
