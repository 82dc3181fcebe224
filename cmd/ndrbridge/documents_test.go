package main

import (
	"io"
	"testing"

	"ndrbridge/test/docs"
)

func TestEveryCommandOfTheDocumentsCanBeTyped(t *testing.T) {
	documents, err := docs.Read("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, misuse := range docs.Misuses(documents, (&command{stdout: io.Discard, stderr: io.Discard}).root) {
		t.Error(misuse)
	}
}
