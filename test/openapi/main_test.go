package main

import (
	"os"
	"path/filepath"
	"testing"

	"ndrbridge/test/require"
)

func TestTheDescriptionIsUpToDate(t *testing.T) {
	root := filepath.Join("..", "..")
	want, err := document(root)
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(root, file))
	require.NoError(t, err)
	if string(got) != string(want) {
		t.Errorf("%s is outdated: run make reference", file)
	}
}
