package presettest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"ndrbridge/test/require"
)

// Golden compares JSON with testdata/<name>.json. If UPDATE_GOLDEN is set in the
// environment it writes the file instead.
func Golden(t testing.TB, name string, body []byte) {
	t.Helper()
	var indented bytes.Buffer
	if err := json.Indent(&indented, body, "", "  "); err != nil {
		t.Fatalf("%s is not JSON: %v: %s", name, err, body)
	}
	indented.WriteByte('\n')
	file := filepath.Join("testdata", name+".json")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, indented.Bytes(), 0o644))
		return
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	if !bytes.Equal(indented.Bytes(), want) {
		t.Errorf("%s differs from %s:\n%s", name, file, indented.Bytes())
	}
}
