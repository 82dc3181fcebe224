// Package zombie has the test of the lease with real processes: an owner of a log that is
// stopped or cut off, and goes on after another process has taken over, must not
// deliver an old version behind a newer one. It runs on Linux.
package zombie
