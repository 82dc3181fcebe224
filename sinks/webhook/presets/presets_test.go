package presets_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"ndrbridge/sinks/webhook/presets"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestEveryPresetIsDescribed(t *testing.T) {
	seen := make(map[string]bool)
	for _, p := range presets.All() {
		t.Run(p.Name, func(t *testing.T) {
			if p.Name == "" || seen[p.Name] {
				t.Error("the name is empty or that of another preset")
			}
			seen[p.Name] = true
			if p.Address == "" || p.Limits == "" {
				t.Error("the address or the limits are not documented")
			}
			if p.Key == "" && (p.KeyRequired || p.KeyAuthorizes) {
				t.Error("the key has properties, but is not described")
			}
			if p.PublicPath && (p.Chat || p.Key == "" && p.OAuthScope == "") {
				t.Error("the path of its URL is shown, but only the URL can hold its secret")
			}
			if found, ok := presets.Find(p.Name); !ok || found.Name != p.Name {
				t.Error("Find does not find it")
			}
		})
	}
	if _, ok := presets.Find(""); ok {
		t.Error("Find finds a preset without a name")
	}
}

func TestTheSampleOfEveryPresetIsValid(t *testing.T) {
	for _, p := range presets.All() {
		t.Run(p.Name, func(t *testing.T) {
			if p.Check != nil {
				for _, e := range p.Check(p.Sample) {
					t.Errorf("%s %s", e.Key, e.Problem)
				}
			}
			if _, err := p.Open(p.Sample); err != nil {
				t.Error(err)
			}
			assert.Equal(t, p.Sample.Key != "", p.KeyRequired, "the sample must have the key if it is required, and only then")
		})
	}
}

func TestEveryPresetIsListed(t *testing.T) {
	files := require.Value(filepath.Glob("../*/*.go"))(t)
	var described []string
	for _, file := range files {
		text := require.Value(os.ReadFile(file))(t)
		if bytes.Contains(text, []byte("\nfunc Spec() webhook.PresetSpec {")) {
			described = append(described, file)
		}
	}
	if len(described) != len(presets.All()) {
		t.Errorf("%d presets are listed, not each of %v", len(presets.All()), described)
	}
}
