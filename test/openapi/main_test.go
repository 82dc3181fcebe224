package main

import (
	"os"
	"path/filepath"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestTheDescriptionIsUpToDate(t *testing.T) {
	root := filepath.Join("..", "..")
	want := require.Value(document(root))(t)
	got := require.Value(os.ReadFile(filepath.Join(root, file)))(t)
	assert.Equal(t, string(got), string(want), file, "is outdated: run make reference")
}
