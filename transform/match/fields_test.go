package match

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/cel-go/common/types"

	"ndrbridge/transform"
)

func TestFieldsAreReadOutOfBytes(t *testing.T) {
	for _, test := range []struct {
		name, data string
		path       string
		want       string
		state      state
	}{
		{"a field is found", `{"a":{"b":1}}`, "a.b", "1", found},
		{"white space is passed over", " {\n\t\"a\" : { \"b\" : \"x y\" } } ", "a.b", `"x y"`, found},
		{"brackets and quotes in texts are passed over", `{"x":"\"}]{[\\","a":{"b":2}}`, "a.b", "2", found},
		{"backslashes behind a long text are passed over", `{"x":"0123456789abcdefghij\\\\\"","a":{"b":2}}`, "a.b", "2", found},
		{"a backslash at the end of a short text is passed over", `{"x":"\\","a":{"b":2}}`, "a.b", "2", found},
		{"a name with escapes is the same name", `{"\u0061":{"\u0062":3}}`, "a.b", "3", found},
		{"a name in an object beside is another", `{"x":{"b":1},"a":{}}`, "a.b", "", missing},
		{"a whole object is found", `{"a":{"b":{"c":[1,{"d":2}]}}}`, "a.b", `{"c":[1,{"d":2}]}`, found},
		{"what should hold it is missing", `{"x":1}`, "a.b", "", unreached},
		{"what should hold it is null", `{"a":null}`, "a.b", "", missing},
		{"what should hold it is a list", `{"a":[{"b":1}]}`, "a.b", "", insideList},
		{"the last of two members counts", `{"a":{"b":1},"a":{"b":2}}`, "a.b", "2", found},
		{"the last of two members counts though it lacks the field", `{"a":{"b":1},"a":{}}`, "a.b", "", missing},
		{"an event that is cut short keeps what came before", `{"a":{"b":1,"c":"unfinis`, "a.b", "1", found},
		{"a value that is cut short is not found", `{"a":{"b":"unfinis`, "a.b", "", missing},
		{"a value that is not an object has no field", `7`, "a.b", "", unreached},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := branch{slot: noSlot}
			root.add(strings.Split(test.path, ".")).slot = 0
			fields := make([]field, 1)
			root.find([]byte(test.data), fields)
			if got := fields[0]; got.state != test.state || string(got.json) != test.want {
				t.Fatalf("%s of %s: %q in state %d, want %q in state %d", test.path, test.data, got.json, got.state, test.want, test.state)
			}
		})
	}
}

func TestTheDepthOfAValueIsBounded(t *testing.T) {
	deep := strings.Repeat("[", maxDepth+10) + strings.Repeat("]", maxDepth+10)
	if value := decode([]byte(deep)); !types.IsError(value) {
		t.Fatalf("%.40v", value)
	}
}

func FuzzFieldsAreReadOutOfAnyBytes(f *testing.F) {
	for _, seed := range []string{`{"detection":` + tunnel + `}`, `{"detection":{"a":[{"b":1}],"b":{"c":"\\\""}}}`, `{"detection":{"a":"\`, `{"detection":[`,
		`{"detection":{"a":-}}`, `{"detection":{"a":+1,"b":Inf}}`, "{\"detection\":{\"a\":\"\xff\\ud800\"}}", `{"\u0064etection":{"b":{"c":1e999}}}`, `{"detection":{"a":}}`} {
		f.Add([]byte(seed))
	}
	var matches []*Match
	for _, expression := range []string{`detection.a == detection.b.c`, `size(detection) > 0`, `detection.a.exists(x, x.b > 1)`, `has(detection.b.c.d)`} {
		m, err := Compile(expression)
		if err != nil {
			f.Fatal(err)
		}
		matches = append(matches, m)
	}
	root := branch{slot: noSlot}
	root.add([]string{"detection", "a"}).slot = 0
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := transform.New(transform.Attributes{ID: "1", Source: "s", Type: "t"}, data)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range matches {
			if wanted, err := m.Matches(e); err != nil && !wanted {
				t.Fatal(err)
			}
		}
		if !json.Valid(data) || !utf8.Valid(data) {
			return
		}
		fields := make([]field, 1)
		root.find(data, fields)
		var decoded struct {
			Detection map[string]json.RawMessage `json:"detection"`
		}
		// The standard decoder ignores the case of names, and merges duplicate objects.
		if bytes.Count(bytes.ToLower(data), []byte("detection")) > 1 || bytes.IndexByte(data, '\\') >= 0 || !bytes.Contains(data, []byte(`"detection"`)) ||
			json.Unmarshal(data, &decoded) != nil {
			return
		}
		if want, got := decoded.Detection["a"], fields[0].json; !bytes.Equal(want, got) {
			t.Fatalf("%s: %q, want %q", data, got, want)
		}
		if value := fields[0].json; value != nil && types.IsError(decode(value)) {
			t.Fatalf("%s: %v", value, decode(value))
		}
	})
}
