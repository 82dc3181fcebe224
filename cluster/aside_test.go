package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestDisk(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.00")
	for n, to := range []string{path + lostSuffix, path + lostSuffix} {
		if err := os.WriteFile(path, fmt.Append(nil, n), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := (disk{}).rename(path, to); err != nil {
			t.Fatal(err)
		}
		if there, err := (disk{}).exists(path); there || err != nil {
			t.Errorf("renamed: %t, %v", there, err)
		}
		if b, err := os.ReadFile(to); string(b) != fmt.Sprint(n) {
			t.Errorf("%q, %v", b, err)
		}
	}
	if err := (disk{}).rename(path, path+lostSuffix); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for range 2 {
		if err := (disk{}).remove(path + lostSuffix); err != nil {
			t.Error(err)
		}
	}
	if there, err := (disk{}).exists(path + lostSuffix); there || err != nil {
		t.Errorf("removed: %t, %v", there, err)
	}
}
