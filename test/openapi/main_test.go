package main

import (
	"os"
	"path/filepath"
	"testing"

	"ndrbridge/test/require"
)

func TestTheDescriptionIsUpToDate(t *testing.T) {
	root := filepath.Join("..", "..")
	want := require.Value(document(root))(t)
	got := require.Value(os.ReadFile(filepath.Join(root, file)))(t)
	if string(got) != string(want) {
		t.Errorf("%s is outdated: run make reference", file)
	}
}
