package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ndrbridge/test/require"
)

// top is the top of the repository.
const top = "../../.."

func TestGeneratedFilesAreUpToDate(t *testing.T) {
	made, err := files(top)
	require.NoError(t, err)
	for name, want := range made {
		t.Run(name+" is what the code says", func(t *testing.T) {
			if got, err := os.ReadFile(filepath.Join(top, name)); err != nil || !bytes.Equal(got, want) {
				t.Error("it is not: run make reference", err)
			}
		})
	}
}

func TestEveryKeyIsDocumented(t *testing.T) {
	s, err := readSource(filepath.Join(top, folder), filepath.Join(top, mapping))
	require.NoError(t, err)
	for name, b := range s.blocks {
		for _, f := range b.fields {
			switch {
			case f.doc == "" && (f.block == nil || f.block.doc == ""):
				t.Errorf("%s.%s has no doc comment that says what %s does", name, f.name, f.key)
			case reference.MatchString(f.doc):
				t.Errorf("%s.%s refers to a field that is none: %s", name, f.name, f.doc)
			case strings.Contains(f.doc, " nil"):
				t.Errorf("%s.%s speaks of nil, which users do not know: %s", name, f.name, f.doc)
			}
		}
	}
}
