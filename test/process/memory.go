// Package process reads what Linux knows of a process, and runs tests in processes of
// their own.
package process

import (
	"os"
	"strconv"
	"strings"
)

// Memory returns the anonymous memory that a process holds now (RssAnon), and the most
// that was resident (VmHWM), files that are mapped included, in bytes. Both are 0 of a
// process that has ended, and on other systems than Linux.
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
