package fileaccess

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

func TestAFileIsDescribedForAMessage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder")
	if err := os.Mkdir(path, 0o750); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		path:                        `^it (belongs to \S+ and )?has mode 0750; this process runs as .+$`,
		filepath.Join(path, "none"): `^this process runs as .+$`,
	} {
		if got := Describe(path); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%q, want %s", got, want)
		}
	}
	const unused = 987654321
	if got := named(unused); got != "uid 987654321" {
		t.Errorf("a user without a name is %q", got)
	}
}
