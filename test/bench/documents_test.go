package main

import (
	"io"
	"slices"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/docs"
	"ndrbridge/test/require"
)

func TestFlagsInDocumentsAreValid(t *testing.T) {
	documents := require.Value(docs.Read("../.."))(t)
	found := 0
	for _, d := range documents {
		for _, args := range d.Commands("go") {
			if !slices.Contains(args, "./test/bench") {
				continue
			}
			found++
			_, err := parse(args[2:], io.Discard)
			assert.NoError(t, err, d.Path, args)
		}
	}
	assert.True(t, found != 0, "no document has a command of the benchmark")
}
