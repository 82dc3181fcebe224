package checkpoint

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestWhatCannotBeReadAheadIsNoFaultOfThePageThatIsAskedFor(t *testing.T) {
	const size = 4096
	path := filepath.Join(t.TempDir(), "state.db")
	var pages []byte
	for id := range 3 {
		pages = append(pages, bytes.Repeat([]byte{byte(id)}, size)...)
	}
	if err := os.WriteFile(path, pages, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w := (&pageCheck{file: file, size: size, pages: 10}).walk()
	w.next = 1 // pages follow each other
	for id := uint64(1); id < 3; id++ {
		if b, err := w.page(id); err != nil || len(b) != size || b[0] != byte(id) {
			t.Errorf("page %d: %d bytes, %v", id, len(b), err)
		}
	}
	if _, err := w.page(3); err == nil {
		t.Error("a page that the file does not have was read")
	}
}
