package configs

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestLayoutErrors(t *testing.T) {
	for _, test := range []struct{ name, file, want string }{
		{"a key below a value", "state: a\n  log: b\n", "2:3: is not YAML: is indented by 2, but the lines above it by"},
		{"a key too far left", "appliances:\n  - name: hq\n    url: https://a\n   api_key: k\n", "4:4: is not YAML: is indented by 3, but the lines above it by 4 or"},
		{"a key too far right", "appliances:\n  - name: hq\n     url: https://a\n", "3:6: is not YAML: is indented by 5, but the lines above it by"},
		{"a block between two others", "sinks:\n  - name: a\n    file:\n      path: x\n     rotate: {}\n", "5:6: is not YAML: is indented by 5, but the lines above it by 6, 4 or 0 spaces"},
		{"a second key to the left of the first", "log:\n    level: info\n  format: json\n", "3:3: is not YAML: is indented by 2, but the lines above it by 4 or"},
		{"a key of an item like the item", "sinks:\n  - name: a\n  file: {path: x}\n", "3:3: is not YAML: is indented by 2, but the lines above it by 4 or 0 spaces"},
		{"a tab", "log:\n\tlevel: info\n", "2:1: is not YAML: is indented with a tab, which YAML does not allow; write spaces"},
		{"a tab after spaces", "log:\n  level: info\n  \tformat: json\n", "3:3: is not YAML: is indented with a tab"},
		{"a tab with Windows line ends", "log:\r\n\tlevel: info\r\n", "2:1: is not YAML: is indented with a tab"},
		{"a quote", "sinks:\n  - name: \"a\n    file: {path: x}\n", "2:11: is not YAML: the \" is not closed"},
		{"a bracket", "sinks: [{name: a, file: {path: x}}\nlog: {}\n", "1:8: is not YAML: the [ is not closed"},
		{"a text in which a line is too far left", "sinks:\n- name: a\n  webhook:\n    template: |\n      a: b\n     c\n    gzip: true\n", "6:6: is not YAML: is indented by 5, but the lines above it by 6, 4 or 2 spaces"},
		{"a mistake after much that is right", "# don't\nlog:\n  level: \"a: b\" # [\n  format: |-\n\n    text # [\n   x\n", "7:4: is not YAML: is indented by 3, but the lines above it by 4, 2 or 0 spaces"},
		{"a colon in a value", "state: a: b", "1: is not YAML: mapping values are not allowed in this context; put a value that contains a colon and a space in quotes"},
		{"a special character", "state: @a", "1: is not YAML: found character that cannot start any token; put a value that begins with a special character in quotes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("f.yaml", []byte(test.file), nil)
			wantErrors(t, err, []string{"f.yaml:" + test.want})
		})
	}
}

func TestKeysInOtherBlocks(t *testing.T) {
	for _, test := range []struct{ name, file, want string }{
		{"a key beside its block", "log:\nlevel: info" + valid, "f.yaml:2:1: level: is not a known key, but log on line 1 has it; indent it deeper than log"},
		{"a key in a block beside its own", "log:\n  level: info\n  state: x" + valid, "f.yaml:3:3: log.state: is not a known key, but the top level has it; indent it like the keys there"},
		{"a key one level too deep", sink(`webhook: {url: "https://a", match: "true"}`), "sinks[0].webhook.match: is not a known key, but sinks[0] has it"},
		{"a word for keys", "log: info" + valid, "log: expected keys with values, found text; its keys are level, format"},
		{"yes for true", sink(`webhook: {url: "https://a", gzip: Yes}`), "sinks[0].webhook.gzip: expected true or false, found text; write true instead of Yes"},
		{"off for false", appliance("audit: {enabled: off}"), "expected true or false, found text; write false instead of off"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("f.yaml", []byte(test.file), nil)
			wantErrors(t, err, []string{test.want})
		})
	}
}

// FuzzSyntaxError checks that the position of a mistake is within the file.
func FuzzSyntaxError(f *testing.F) {
	for _, text := range []string{"a: b\n  c: d", "a:\n\t- b", "- a\n b: |\n  c\n d", "a: [\n", "a: 'b", "- - a: b\n   c: d\n", "---\na: &b c\n...\n", "- -", "a\n\"\\"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		err := yaml.Unmarshal([]byte(text), new(yaml.Node))
		if len(text) > 1<<12 || err == nil {
			return
		}
		e := SyntaxError("f.yaml", err, []byte(text))
		if lines := strings.Split(text, "\n"); e.Column > 0 && (e.Line < 1 || e.Line > len(lines) || e.Column > len(lines[e.Line-1])+1) {
			t.Errorf("%q: %+v", text, *e)
		}
	})
}
