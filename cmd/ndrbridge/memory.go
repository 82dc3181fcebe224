package main

import (
	"runtime/debug"
	"slices"
	"strings"
)

// tuneMemory lets garbage grow to a few times of what lives, and keeps the whole
// below a limit: little lives here and much passes through, so that the default
// collects a hundred times for each backlog. Each sink may have some batches in hand;
// the pages of all appliances are bounded together, so that one more costs little. What the
// environment sets stays.
func tuneMemory(environ []string, appliances, sinks int) {
	if slices.ContainsFunc(environ, func(v string) bool {
		return strings.HasPrefix(v, "GOGC=") || strings.HasPrefix(v, "GOMEMLIMIT=")
	}) {
		return
	}
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(72<<20 + int64(appliances)*256<<10 + int64(sinks)*4<<20)
}
