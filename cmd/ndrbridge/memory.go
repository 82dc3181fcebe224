package main

import (
	"runtime/debug"
	"slices"
	"strings"
)

// tuneMemory lets garbage grow to a few times of what lives, and keeps the whole
// below a limit: little lives here and much passes through, so that the default
// collects a hundred times for each backlog. Each stream and each sink (parts of
// them in all) may have a page or a batch in hand. What the environment sets stays.
func tuneMemory(environ []string, parts int) {
	if slices.ContainsFunc(environ, func(v string) bool {
		return strings.HasPrefix(v, "GOGC=") || strings.HasPrefix(v, "GOMEMLIMIT=")
	}) {
		return
	}
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(64<<20 + int64(parts)*8<<20)
}
