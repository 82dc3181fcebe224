package main

import (
	"io"
	"testing"

	"ndrbridge/test/docs"
)

func TestEveryCommandOfTheDocumentsCanBeTyped(t *testing.T) {
	docs.TryCommands(t, (&command{stdout: io.Discard, stderr: io.Discard}).root)
}
