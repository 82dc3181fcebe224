package docs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"ndrbridge/configs"
	"ndrbridge/test/assert"
	"ndrbridge/test/certificate"
	"ndrbridge/test/require"
)

// frame completes a fragment of a configuration in a document with the missing parts.
const frame = `
appliances:
  - {name: hq, url: "https://sensor.example", api_key: a-key}
sinks:
  - {name: soc, webhook: {url: "https://hooks.example/x"}}
`

// foreign are keys of other programs' files, which must only be valid YAML.
var foreign = []string{"apiVersion", "services", "scrape_configs", "groups", "rule_files", "receivers"}

func TestEveryConfigurationLoads(t *testing.T) {
	for _, b := range blocks(t, "yaml") {
		t.Run(b.Position, func(t *testing.T) {
			decoder := yaml.NewDecoder(strings.NewReader(b.Text))
			for {
				var shown yaml.Node
				if err := decoder.Decode(&shown); errors.Is(err, io.EOF) {
					return
				} else if err != nil {
					t.Fatal(err)
				}
				assert.NoError(t, load(t, shown.Content[0]))
			}
		})
	}
}

func TestMistakesInConfigurationsAreFound(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a whole one", "journal: {retain: long}", "journal.retain"},
		{"a list of sinks", "- {name: soc, webhook: {url: nowhere}}", "sinks[0].webhook.url"},
		{"a sink's key", "match: detection.risk_score >=", "sinks[0].match"},
		{"an appliance's key", "detections: {start: soon}", "appliances[0].detections.start"},
		{"a key that belongs nowhere", "colour: red", "no part of a configuration"},
		{"a key beside those of a sink", "match: 'true'\ncolour: red", "no part of a configuration"},
		{"a text", "only words", "another language"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var shown yaml.Node
			require.NoError(t, yaml.Unmarshal([]byte(c.text), &shown))
			assert.ErrorContains(t, load(t, shown.Content[0]), c.want, "the error is")
		})
	}
}

// load loads a configuration made of a fragment and the frame.
func load(t *testing.T, shown *yaml.Node) error {
	if shown.Kind == yaml.MappingNode && slices.ContainsFunc(foreign, func(key string) bool { return find(shown, key) != nil }) {
		return nil
	}
	var whole yaml.Node
	if err := yaml.Unmarshal([]byte(frame), &whole); err != nil {
		return err
	}
	config := whole.Content[0]
	switch position := positionOf(shown); position {
	case "":
		merge(config, shown)
	case "appliances", "sinks":
		list := find(config, position)
		if shown.Kind == yaml.SequenceNode {
			*list = *shown
		} else {
			merge(list.Content[0], shown)
		}
	default:
		return errors.New(position)
	}
	certificate, key := certificate.PEM(t, certificate.New(t, "ndr.example", time.Now().Add(time.Hour), nil))
	provide(t, config, certificate, key)
	text, err := yaml.Marshal(config)
	if err != nil {
		return err
	}
	path := filepath.Join(t.TempDir(), "ndrbridge.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return err
	}
	if _, err := configs.Load(configs.Source{Paths: []string{path}}); err != nil {
		return fmt.Errorf("%w\nof\n%s", err, text)
	}
	var value any
	asJSON(config)
	if err := config.Decode(&value); err != nil {
		return err
	}
	if err := schema().Validate(value); err != nil {
		return fmt.Errorf("Load accepts what the schema rejects: %w\nin\n%s", err, text)
	}
	return nil
}

// schema returns the schema that editors validate configurations with.
var schema = sync.OnceValue(func() *jsonschema.Schema {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(configs.Schema()))
	if err != nil {
		panic(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("schema.json", document); err != nil {
		panic(err)
	}
	return compiler.MustCompile("schema.json")
})

// asJSON converts values that JSON cannot represent, non-string keys and times, to strings.
func asJSON(node *yaml.Node) {
	for i, child := range node.Content {
		asJSON(child)
		if child.ShortTag() == "!!timestamp" || node.Kind == yaml.MappingNode && i%2 == 0 {
			child.Tag = "!!str"
		}
	}
}

// positionOf returns the list to which a fragment belongs, if it consists of list items or
// parts of one; empty for a whole configuration or its top-level keys. Any other text is an
// error message.
func positionOf(shown *yaml.Node) string {
	keys := shown
	if shown.Kind == yaml.SequenceNode && len(shown.Content) > 0 {
		keys = shown.Content[0]
	}
	if keys.Kind != yaml.MappingNode {
		return "neither keys nor a list of blocks: give the block another language"
	}
	switch {
	case shown.Kind == yaml.MappingNode && known[configs.Config](keys):
		return ""
	case known[configs.Appliance](keys):
		return "appliances"
	case known[configs.Sink](keys):
		return "sinks"
	}
	return "these keys together belong to no part of a configuration"
}

// known reports whether type T has every key of a block.
func known[T any](keys *yaml.Node) bool {
	var names []string
	block := reflect.TypeFor[T]()
	for i := range block.NumField() {
		field := block.Field(i)
		name := field.Tag.Get("yaml")
		names = append(names, name)
		if field.Type == reflect.TypeFor[configs.Secret]() {
			names = append(names, name+"_file")
		}
	}
	for i := 0; i < len(keys.Content); i += 2 {
		if !slices.Contains(names, keys.Content[i].Value) {
			return false
		}
	}
	return true
}

// find returns the value of a key, or nil.
func find(keys *yaml.Node, key string) *yaml.Node {
	for i := 0; i < len(keys.Content); i += 2 {
		if keys.Content[i].Value == key {
			return keys.Content[i+1]
		}
	}
	return nil
}

// merge replaces keys of the frame with those of the fragment. It removes keys that exclude
// these: a sink has one of four kinds.
func merge(into, shown *yaml.Node) {
	kinds := []string{"kafka", "nats", "webhook", "file"}
	hasKind := slices.ContainsFunc(kinds, func(kind string) bool { return find(shown, kind) != nil })
	merged := *shown
	for i := 0; i < len(into.Content); i += 2 {
		key := into.Content[i].Value
		if find(shown, key) == nil && !(hasKind && slices.Contains(kinds, key)) {
			merged.Content = append(merged.Content, into.Content[i], into.Content[i+1])
		}
	}
	*into = merged
}

// provide creates each file that the configuration names and substitutes its path. certificate
// and key are in PEM.
func provide(t *testing.T, node *yaml.Node, certificate, key string) {
	for i, child := range node.Content {
		provide(t, child, certificate, key)
		if node.Kind != yaml.MappingNode || i%2 == 0 {
			continue
		}
		switch name := node.Content[i-1].Value; {
		case slices.Contains([]string{"ca_file", "cert_file", "client_ca_file"}, name):
			child.Value = file(t, certificate)
		case name == "key_file" && find(node, "cert_file") != nil:
			child.Value = file(t, key)
		case name == "url_file":
			child.Value = file(t, "https://hooks.example/a-hook")
		case name == "template_file":
			child.Value = file(t, `{"id": {{json .event.id}}}`)
		case name == "read_token_file": // must differ from the other token
			child.Value = file(t, "read-token")
		case strings.HasSuffix(name, "_file"):
			child.Value = file(t, "whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0")
		case strings.HasSuffix(name, "_files"):
			for _, item := range child.Content {
				item.Value = file(t, "whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0")
			}
		}
	}
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
