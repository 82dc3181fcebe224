package preflight_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/preflight"
	"ndrbridge/test/findingtest"
	"ndrbridge/test/require"
)

// checkWithState checks a configuration with a state. It fails the test if the check
// changes, makes or removes a file beside it.
func checkWithState(t *testing.T, state string) []finding.Finding {
	t.Helper()
	yaml := "state: " + state + "\nappliances: [{name: hq, url: \"http://127.0.0.1:1\", api_key: k}]\nsinks: [{name: log, file: {path: \"-\"}}]\n"
	config := require.Value(configs.Parse("ndrbridge.yaml", []byte(yaml), nil))(t)
	before := filesOf(filepath.Dir(state))
	found := preflight.Check(t.Context(), config, preflight.Options{Timeout: 5 * time.Second, Now: time.Now})
	if after := filesOf(filepath.Dir(state)); !maps.Equal(before, after) {
		t.Errorf("the check has changed files")
	}
	return found
}

// filesOf returns the content of the files in a folder, by name with mode and time.
func filesOf(folder string) map[string]string {
	files := map[string]string{}
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue
		}
		text, _ := os.ReadFile(filepath.Join(folder, e.Name()))
		files[fmt.Sprint(e.Name(), info.Mode(), info.ModTime())] = string(text)
	}
	return files
}

func TestCheckReportsWhatAStartWouldDoWithTheState(t *testing.T) {
	refused := func(detail, advice string) findingtest.Row {
		return findingtest.Row{Step: "state", Result: finding.Failed, Detail: detail, Advice: advice}
	}
	open := func(t *testing.T, path string) *checkpoint.Store {
		s := require.Value(checkpoint.Open(path, checkpoint.Options{}))(t)
		t.Cleanup(func() { s.Close() })
		return s
	}
	for name, test := range map[string]struct {
		prepare func(t *testing.T, path string) // of a state that was closed in order
		want    findingtest.Row
	}{
		"a state that was closed in order": {func(*testing.T, string) {}, findingtest.Row{Step: "state", Result: finding.OK, Detail: "can be written"}},
		"a state that a running bridge has open": {func(t *testing.T, path string) { open(t, path) },
			findingtest.Row{Step: "state", Result: finding.Remark, Detail: "is in use"}},
		"a state of a newer version": {func(t *testing.T, path string) {
			db, err := bolt.Open(path, 0o600, &bolt.Options{NoFreelistSync: true})
			if err == nil {
				err = errors.Join(db.Update(func(tx *bolt.Tx) error {
					return tx.Bucket([]byte("meta")).Put([]byte("version"), []byte("1000"))
				}), db.Close())
			}
			require.NoError(t, err)
		}, refused("newer version", "version")},
		"a state that was cut short": {func(t *testing.T, path string) {
			info, err := os.Stat(path)
			if err == nil {
				err = os.Truncate(path, info.Size()/2)
			}
			require.NoError(t, err)
		}, refused("damaged", "backup")},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.db")
			require.NoError(t, open(t, path).Close())
			test.prepare(t, path)
			findingtest.Expect(t, checkWithState(t, path), test.want)
		})
	}
}
