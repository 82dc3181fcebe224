package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"ndrbridge/configs"
	"ndrbridge/test/require"
)

// compiled is the schema that config schema prints, and its parts by their paths.
var compiled = sync.OnceValue(func() func(part string) *jsonschema.Schema {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(configs.Schema()))
	if err != nil {
		panic(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("schema.json", document); err != nil {
		panic(err)
	}
	return func(part string) *jsonschema.Schema { return compiler.MustCompile("schema.json#" + part) }
})

var wholeSchema = sync.OnceValue(func() *jsonschema.Schema { return compiled()("") })

// tree is YAML as JSON knows it.
func tree(t testing.TB, text string) any {
	t.Helper()
	var document yaml.Node
	require.NoError(t, yaml.Unmarshal([]byte(text), &document), "in", text)
	return treeOf(&document)
}

func treeOf(node *yaml.Node) any {
	switch node.Kind {
	case yaml.DocumentNode:
		return treeOf(node.Content[0])
	case yaml.AliasNode:
		return treeOf(node.Alias)
	case yaml.MappingNode:
		object := make(map[string]any)
		for i := 0; i < len(node.Content); i += 2 {
			object[node.Content[i].Value] = treeOf(node.Content[i+1])
		}
		return object
	case yaml.SequenceNode:
		list := make([]any, len(node.Content))
		for i, item := range node.Content {
			list[i] = treeOf(item)
		}
		return list
	}
	switch node.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		return node.Value == "true"
	case "!!int", "!!float":
		if json.Valid([]byte(node.Value)) {
			return json.Number(node.Value)
		}
	}
	return node.Value
}

// copied is a deep copy.
func copied(value any) any {
	switch v := value.(type) {
	case map[string]any:
		v = maps.Clone(v)
		for key, below := range v {
			v[key] = copied(below)
		}
		return v
	case []any:
		list := make([]any, len(v))
		for i, below := range v {
			list[i] = copied(below)
		}
		return list
	}
	return value
}

// secretFiles are files for whatever a configuration names.
type secretFiles struct{ secret, template string }

func writeFiles(t testing.TB) secretFiles {
	t.Helper()
	folder := t.TempDir()
	files := secretFiles{filepath.Join(folder, "secret"), filepath.Join(folder, "template")}
	for path, text := range map[string]string{files.secret: aSecret, files.template: "{}"} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return files
}

const aSecret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

// replace names files that are there in place of those that the tree names.
func (s secretFiles) replace(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, below := range v {
			_, isText := below.(string)
			switch {
			case key == "template_file" && isText && below != "":
				v[key] = s.template
			case strings.HasSuffix(key, "_file") && isText && below != "":
				v[key] = s.secret
			case strings.HasSuffix(key, "_files"):
				if list, is := below.([]any); is {
					for i := range list {
						list[i] = s.secret
					}
				}
			default:
				v[key] = s.replace(below)
			}
		}
	case []any:
		for i, below := range v {
			v[i] = s.replace(below)
		}
	}
	return value
}

// fataler is a test, or a run of a property.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

// load is configs.Parse of a tree, which is YAML when it is JSON.
func load(t fataler, config any) (*configs.Config, error) {
	t.Helper()
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(config); err != nil {
		t.Fatal(err)
	}
	return configs.Parse("f.yaml", b.Bytes(), nil)
}
