package main

import (
	"io"
	"testing"

	"github.com/spf13/cobra"

	"ndrbridge/test/docs"
)

func TestEveryCommandOfTheDocumentsCanBeTyped(t *testing.T) {
	documents, err := docs.Read("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, misuse := range docs.Misuses(documents, func() *cobra.Command { return command(io.Discard, io.Discard) }) {
		t.Error(misuse)
	}
}
