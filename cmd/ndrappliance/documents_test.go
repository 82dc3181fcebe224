package main

import (
	"io"
	"testing"

	"github.com/spf13/cobra"

	"ndrbridge/test/docs"
)

func TestCommandsInDocumentsAreValid(t *testing.T) {
	docs.TryCommands(t, func() *cobra.Command { return command(io.Discard, io.Discard) })
}
