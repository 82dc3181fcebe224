package fileaccess

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestAFileIsDescribedForAMessage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder")
	require.NoError(t, os.Mkdir(path, 0o750))
	for path, want := range map[string]string{
		path:                        `^it (belongs to \S+ and )?has mode 0750; this process runs as .+$`,
		filepath.Join(path, "none"): `^this process runs as .+$`,
	} {
		got := Describe(path)
		assert.True(t, regexp.MustCompile(want).MatchString(got), got, want)
	}
	const unused = 987654321
	assert.Equal(t, named(unused), "uid 987654321", "a user without a name is")
}

func TestFilesThatOthersMayReadOrReplace(t *testing.T) {
	for _, test := range []struct {
		name         string
		folder, file os.FileMode
		problem, fix string
	}{
		{"only its owner may use it", 0o700, 0o600, "", ""},
		{"its group may read it", 0o755, 0o640, "", ""},
		{"everybody may read it", 0o700, 0o644, "everybody on this machine may read ", "chmod g-w,o= "},
		{"everybody may write it", 0o700, 0o666, "everybody on this machine may write ", "chmod go-w,o= "},
		{"its group may write it", 0o755, 0o660, "may write it", "chmod g-w "},
		{"everybody may write its folder", 0o777, 0o600, "everybody may write its folder", "chmod o-w "},
		{"the group of its folder may write there", 0o775, 0o600, "may replace it", "chmod g-w "},
		{"everybody may write its folder, but only remove own files", 0o777 | os.ModeSticky, 0o600, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "folder")
			path := filepath.Join(folder, "secret")
			for _, err := range []error{os.Mkdir(folder, 0o700), os.WriteFile(path, []byte("x"), 0o600), os.Chmod(path, test.file), os.Chmod(folder, test.folder)} {
				require.NoError(t, err)
			}
			problem, fix := Exposed(path)
			assert.True(t, strings.Contains(problem, test.problem) && (problem == "") == (test.problem == "") && strings.HasPrefix(fix, test.fix), problem, fix)
		})
	}
	problem, _ := Exposed(filepath.Join(t.TempDir(), "none"))
	assert.Equal(t, problem, "", "a missing file")
}

func TestFree(t *testing.T) {
	folder := t.TempDir()
	bytes, known := Free(folder)
	assert.True(t, !known || bytes != 0, "no bytes are free in a folder that exists")
	bytes, known = Free(filepath.Join(folder, "missing"))
	assert.False(t, known, bytes, "bytes are free in a folder that is missing")
}
