package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestEveryMetricExists(t *testing.T) {
	var code strings.Builder
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		code.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`\bndrbridge_[a-z_]+`)
	of := regexp.MustCompile(`_(bucket|sum|count)$`) // what a histogram is made of
	for _, d := range read(t) {
		for _, span := range d.Spans {
			for _, metric := range name.FindAllString(span, -1) {
				if !strings.Contains(code.String(), `"`+of.ReplaceAllString(metric, "")+`"`) {
					t.Errorf("%s: there is no metric %s", d.Path, metric)
				}
			}
		}
	}
}
