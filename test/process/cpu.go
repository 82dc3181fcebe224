package process

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// clockTicks is the number of ticks a second in /proc, on every platform that Go supports.
const clockTicks = 100

// CPU returns the CPU time of a process, user and system. It is 0 if the process has ended,
// and on systems other than Linux.
func CPU(pid int) time.Duration {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// The program's name, which may have spaces, stands in parentheses before the third field.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const user, system = 14 - 3, 15 - 3
	if len(fields) <= system {
		return 0
	}
	var ticks int64
	for _, field := range [][]byte{fields[user], fields[system]} {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / clockTicks
}
