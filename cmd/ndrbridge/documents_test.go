package main

import (
	"io"
	"testing"

	"ndrbridge/test/docs"
)

func TestCommandsInDocumentsAreValid(t *testing.T) {
	docs.TryCommands(t, (&command{stdout: io.Discard, stderr: io.Discard}).root)
}
