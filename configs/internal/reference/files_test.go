package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// top is the top of the repository.
const top = "../../.."

func TestGeneratedFilesAreUpToDate(t *testing.T) {
	made := require.Value(files(top))(t)
	for name, want := range made {
		t.Run(name+" is what the code says", func(t *testing.T) {
			assert.True(t, bytes.Equal(require.Value(os.ReadFile(filepath.Join(top, name)))(t), want), "it is not: run make reference")
		})
	}
}

func TestEveryKeyIsDocumented(t *testing.T) {
	s := require.Value(readSource(filepath.Join(top, folder), filepath.Join(top, mapping)))(t)
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
