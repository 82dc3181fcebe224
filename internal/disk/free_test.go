//go:build darwin || linux

package disk_test

import (
	"path/filepath"
	"testing"

	"ndrbridge/internal/disk"
)

func TestFree(t *testing.T) {
	folder := t.TempDir()
	if bytes, known := disk.Free(folder); !known || bytes == 0 {
		t.Errorf("%d bytes are free in a folder that exists, known: %t", bytes, known)
	}
	if bytes, known := disk.Free(filepath.Join(folder, "missing")); known {
		t.Errorf("%d bytes are free in a folder that is missing", bytes)
	}
}
