package main

import (
	"runtime/debug"
	"slices"
	"strings"
)

// tuneMemory configures the garbage collector unless the environment sets GOGC or
// GOMEMLIMIT. Little memory is live here and much passes through, so the default would
// collect a hundred times for each backlog. It therefore lets garbage grow to a few times
// the live heap, below a limit. The limit grows with each sink, which may hold several
// batches, and a little with each appliance, because the pages of all appliances share
// one bound.
func tuneMemory(environ []string, appliances, sinks int) {
	if slices.ContainsFunc(environ, func(v string) bool {
		return strings.HasPrefix(v, "GOGC=") || strings.HasPrefix(v, "GOMEMLIMIT=")
	}) {
		return
	}
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(72<<20 + int64(appliances)*256<<10 + int64(sinks)*4<<20)
}
