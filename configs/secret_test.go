package configs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestSecretRead(t *testing.T) {
	for _, test := range []struct{ name, content, want string }{
		{"as it is", "abc", "abc"},
		{"less its line end", "abc\n", "abc"},
		{"less a line end of two bytes", "abc\r\n", "abc"},
		{"less all line ends at its end", "abc\n\r\n\n", "abc"},
		{"with its blanks", " abc ", " abc "},
	} {
		t.Run("reads a file "+test.name, func(t *testing.T) {
			got := require.Value(Secret{File: writeFile(t, test.content)}.Read())(t)
			assert.Equal(t, got, test.want)
		})
	}

	t.Run("reads the file again at every call", func(t *testing.T) {
		s := Secret{File: writeFile(t, "one")}
		require.Equal(t, require.Value(s.Read())(t), "one")
		require.NoError(t, os.WriteFile(s.File, []byte("two"), 0o600))
		require.Equal(t, require.Value(s.Read())(t), "two")
	})

	t.Run("gives a value less its line end", func(t *testing.T) {
		require.Equal(t, require.Value(NewSecret(" abc\n").Read())(t), " abc")
	})

	t.Run("is empty where it is unset", func(t *testing.T) {
		s := NewSecret("")
		got, err := s.Read()
		require.True(t, got == "" && err == nil && !s.IsSet() && s == (Secret{}), got, err)
	})

	for name, path := range map[string]string{
		"that is missing":    filepath.Join(t.TempDir(), "none"),
		"that is empty":      writeFile(t, "\n"),
		"that is a folder":   t.TempDir(),
		"that is a device":   "/dev/zero",
		"that is too large":  writeFile(t, strings.Repeat("x", 1<<20+1)),
		"below another file": filepath.Join(writeFile(t, "x"), "y"),
	} {
		t.Run("refuses a file "+name, func(t *testing.T) {
			got, err := (Secret{File: path}).Read()
			assert.True(t, err != nil && strings.Contains(err.Error(), path), got, err)
		})
	}

	for name, text := range map[string]string{
		"a line break": "ses\name", "a line break of two bytes": "ses\r\name\r\n", "a carriage return": "ses\rame",
		"a NUL": "ses\x00ame", "a line break in front": "\nsesame",
	} {
		t.Run("refuses a secret with "+name, func(t *testing.T) {
			s := Secret{File: writeFile(t, text)}
			for name, of := range map[string]Secret{s.File: s, "the value": NewSecret(text)} {
				got, err := of.Read()
				assert.True(t, err != nil && got == "" && strings.Contains(err.Error(), name) && (!strings.Contains(err.Error(), "ame") || strings.Contains(name, "ame")), got, err)
			}
			require.NoError(t, os.WriteFile(s.File, []byte("sesame\n"), 0o600))
			assert.Equal(t, require.Value(s.Read())(t), "sesame", "once it is corrected")
		})
	}
}
