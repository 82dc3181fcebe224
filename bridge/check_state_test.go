package bridge_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"ndrbridge/bridge"
	"ndrbridge/configs"
	"ndrbridge/preflight"
	"ndrbridge/preflight/preflighttest"
)

func TestCheckTriesTheStatesFolderWithoutMakingAnything(t *testing.T) {
	folder := t.TempDir()
	text := filepath.Join(folder, "text")
	if err := os.WriteFile(text, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	locked := filepath.Join(folder, "locked")
	if err := os.Mkdir(locked, 0o500); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		state string
		want  preflighttest.Row
	}{
		"a folder that is there":          {filepath.Join(folder, "state.db"), preflighttest.Row{Step: "state", Result: preflight.OK, Detail: "can be written"}},
		"a folder that is missing":        {filepath.Join(folder, "none", "state.db"), preflighttest.Row{Step: "state", Result: preflight.Failed, Detail: "does not exist", Advice: "state"}},
		"a file in a folder's place":      {filepath.Join(text, "state.db"), preflighttest.Row{Step: "state", Result: preflight.Failed, Advice: "state"}},
		"a folder in the file's place":    {locked, preflighttest.Row{Step: "state", Result: preflight.Failed, Detail: "is a folder", Advice: "state"}},
		"a folder that cannot be written": {filepath.Join(locked, "state.db"), preflighttest.Row{Step: "state", Result: preflight.Failed, Detail: "no file can be made", Advice: "user"}},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "a folder that cannot be written" && os.Geteuid() == 0 {
				t.Skip("root may write everywhere")
			}
			yaml := "state: " + test.state + "\nappliances: [{name: hq, url: \"http://127.0.0.1:1\", api_key: k}]\nsinks: [{name: log, file: {path: \"-\"}}]\n"
			config, err := configs.Parse("ndrbridge.yaml", []byte(yaml), nil)
			if err != nil {
				t.Fatal(err)
			}
			_, before := os.Stat(test.state)
			found := bridge.Check(t.Context(), config, bridge.CheckOptions{Timeout: 5 * time.Second, Now: time.Now})
			preflighttest.Expect(t, found, test.want)
			if _, after := os.Stat(test.state); (before == nil) != (after == nil) {
				t.Error("the check has made the state")
			}
		})
	}
}
