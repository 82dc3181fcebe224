package file_test

import (
	"os"
	"path/filepath"
	"testing"

	"ndrbridge/internal/finding"
	"ndrbridge/sinks/file"
	"ndrbridge/test/findingtest"
)

func TestCheck(t *testing.T) {
	for name, test := range map[string]struct {
		path   func(folder string) string
		change func(t *testing.T, folder string)
		want   findingtest.Row
	}{
		"a missing file": {
			path: func(folder string) string { return filepath.Join(folder, "events.jsonl") },
			want: findingtest.Row{Step: "file", Result: finding.OK, Detail: "can be written"},
		},
		"free space": {
			path: func(folder string) string { return filepath.Join(folder, "events.jsonl") },
			want: findingtest.Row{Step: "space", Result: finding.Remark, Detail: "MiB are free; the files may take 6 MiB"},
		},
		"standard output": {
			path: func(string) string { return file.Stdout },
			want: findingtest.Row{Step: "file", Result: finding.OK, Detail: "standard output"},
		},
		"a missing folder": {
			path: func(folder string) string { return filepath.Join(folder, "nowhere", "events.jsonl") },
			want: findingtest.Row{Step: "file", Result: finding.Failed, Detail: "does not exist", Advice: "create it"},
		},
		"a file instead of the folder": {
			path: func(folder string) string { return filepath.Join(folder, "x", "events.jsonl") },
			change: func(t *testing.T, folder string) {
				if err := os.WriteFile(filepath.Join(folder, "x"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			},
			want: findingtest.Row{Step: "file", Result: finding.Failed, Detail: "is not a folder", Advice: "correct path"},
		},
		"a folder instead of the file": {
			path: func(folder string) string { return folder },
			want: findingtest.Row{Step: "file", Result: finding.Failed, Detail: "is a folder", Advice: "correct path"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			if test.change != nil {
				test.change(t, folder)
			}
			before, _ := os.ReadDir(folder)
			findingtest.Expect(t, file.Check(file.Options{Path: test.path(folder), MaxBytes: 1 << 20, Keep: 5}), test.want)
			if after, _ := os.ReadDir(folder); len(after) != len(before) {
				t.Error("the folder was changed")
			}
		})
	}
}
