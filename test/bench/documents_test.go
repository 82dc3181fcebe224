package main

import (
	"io"
	"slices"
	"testing"

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
			if _, err := parse(args[2:], io.Discard); err != nil {
				t.Errorf("%s: %q: %v", d.Path, args, err)
			}
		}
	}
	if found == 0 {
		t.Error("no document has a command of the benchmark")
	}
}
