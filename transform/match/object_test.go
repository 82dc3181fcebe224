package match

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// lookup returns the value at a path, such as a.b, in an event's data; nil if there is
// none.
func lookup(t *testing.T, data, path string) ref.Val {
	e := event(t, transform.Attributes{ID: "1", Source: "s", Type: "t"}, data)
	var value ref.Val = &object{json: e.Data(), isData: true}
	for name := range strings.SplitSeq(path, ".") {
		o, ok := value.(*object)
		if !ok {
			return nil
		}
		if value = o.find(name); value == nil {
			return nil
		}
	}
	return value
}

func TestFieldsAreReadOutOfBytes(t *testing.T) {
	for _, test := range []struct {
		name, data, path string
		want             string // "" if the field is missing
	}{
		{"a field is found", `{"a":{"b":1}}`, "a.b", "1"},
		{"a field in a deeper object is found", `{"a":{"b":{"c":{"d":1}}}}`, "a.b.c.d", "1"},
		{"white space is skipped", " {\n\t\"a\" : { \"b\" : \"x y\" } } ", "a.b", `"x y"`},
		{"brackets and quotes in texts are skipped", `{"x":"\"}]{[\\","a":{"b":2}}`, "a.b", "2"},
		{"backslashes behind a long text are skipped", `{"x":"0123456789abcdefghij\\\\\"","a":{"b":2}}`, "a.b", "2"},
		{"a backslash at the end of a short text is skipped", `{"x":"\\","a":{"b":2}}`, "a.b", "2"},
		{"a name with escapes is the same name", `{"\u0061":{"\u0062":3}}`, "a.b", "3"},
		{"a name in an object beside is another", `{"x":{"b":1},"a":{}}`, "a.b", ""},
		{"a whole object is found", `{"a":{"b":{"c":[1,{"d":2}]}}}`, "a.b", `{"c":[1,{"d":2}]}`},
		{"what should hold it is missing", `{"x":1}`, "a.b", ""},
		{"what should hold it is null", `{"a":null}`, "a.b", ""},
		{"what should hold it is a list", `{"a":[{"b":1}]}`, "a.b", ""},
		{"the last of two members counts", `{"a":{"b":1},"a":{"b":2}}`, "a.b", "2"},
		{"the last of two members counts though it lacks the field", `{"a":{"b":1},"a":{}}`, "a.b", ""},
		{"an event that is cut short keeps what came before", `{"a":{"b":1},"c":{"d":"unfinis`, "a.b", "1"},
		{"a value that is cut short is not found", `{"a":{"b":"unfinis`, "a.b", ""},
		{"a value that is not an object has no field", `7`, "a.b", ""},
		{"a value as deep as JSON may be is found", `{"a":{"b":` + nested(maxDepth-1) + `}}`, "a.b", nested(maxDepth - 1)},
		{"a value that is deeper is not found", `{"a":{"b":` + nested(maxDepth) + `}}`, "a.b", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := lookup(t, test.data, test.path)
			if test.want == "" {
				if got != nil {
					t.Fatalf("%s of %.100s: %.100v, want none", test.path, test.data, got)
				}
				return
			}
			if got == nil || got.Equal(decode([]byte(test.want), nil)) != types.True {
				t.Fatalf("%s of %.100s: %.100v, want %.100s", test.path, test.data, got, test.want)
			}
		})
	}
}

// maxDepth is the maximum nesting that encoding/json accepts.
const maxDepth = 10_000

func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

func FuzzFieldsAreReadOutOfAnyBytes(f *testing.F) {
	for _, seed := range []string{`{"detection":` + tunnel + `}`, `{"detection":{"a":[{"b":1}],"b":{"c":"\\\""}}}`, `{"detection":{"a":"\`, `{"detection":[`,
		`{"detection":{"a":-}}`, `{"detection":{"a":+1,"b":Inf}}`, "{\"detection\":{\"a\":\"\xff\\ud800\"}}", `{"\u0064etection":{"b":{"c":1e999}}}`, `{"detection":{"a":}}`,
		`{"detection":{"a":1,"b":"unfinis`, `{"detection":`, `{`, ``} {
		f.Add([]byte(seed))
	}
	var matches []*Match
	for _, expression := range []string{`detection.a == detection.b.c`, `size(detection) > 0`, `detection.a.exists(x, x.b > 1)`, `has(detection.b.c.d)`} {
		m := require.Value(compile(expression))(f)
		matches = append(matches, m)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e := require.Value(transform.New(transform.Attributes{ID: "1", Source: "s", Type: "t"}, data))(t)
		for _, m := range matches {
			if wanted, err := m.Matches(e); err != nil && (!wanted || strings.Contains(err.Error(), "internal error")) {
				t.Fatal(err)
			}
		}
		if !json.Valid(data) || !utf8.Valid(data) {
			return
		}
		var decoded struct {
			Detection map[string]json.RawMessage `json:"detection"`
		}
		// The standard decoder ignores the case of names, and merges duplicate objects.
		if bytes.Count(bytes.ToLower(data), []byte("detection")) > 1 || bytes.IndexByte(data, '\\') >= 0 || !bytes.Contains(data, []byte(`"detection"`)) ||
			json.Unmarshal(data, &decoded) != nil {
			return
		}
		want, got := decoded.Detection["a"], lookup(t, string(data), "detection.a")
		if (want == nil) != (got == nil) || want != nil && got.Equal(decode(want, nil)) != types.True {
			t.Fatalf("%s: %v, want %s", data, got, want)
		}
	})
}

func TestLargeObjectsAreReadAsSmallOnes(t *testing.T) {
	for name, test := range map[string]struct {
		member string // the last one but for many others
		path   string
		want   string // "" if it is missing
	}{
		"a member":                          {`"a":1`, "a", "1"},
		"the last one of a name":            {`"a":1,"a":2`, "a", "2"},
		"a name with an escape":             {`"\u0061":3`, "a", "3"},
		"a later name with an escape":       {`"a":1,"\u0061":3`, "a", "3"},
		"a member that is missing":          {`"a":1`, "b", ""},
		"a member of an object in it":       {`"a":{"b":4}`, "a.b", "4"},
		"a name that is empty":              {`"":6`, "", "6"},
		"a name that an escape would write": {`"a\\b":7`, `a\b`, "7"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, others := range []int{0, maxSearched, 10 * maxSearched} {
				var data strings.Builder
				data.WriteString("{")
				for i := range others {
					fmt.Fprintf(&data, `"other%d":0,`, i)
				}
				data.WriteString(test.member + "}")
				got := ""
				if value := lookup(t, data.String(), test.path); value != nil {
					got = fmt.Sprint(value.Value())
				}
				assert.Equal(t, got, test.want, "beside", others, "others it is")
			}
		})
	}
}

func TestDecodingEndsWhereJSONIsCutShort(t *testing.T) {
	for _, cut := range []string{``, `{`, `{"a`, `{"a"`, `{"a":`, `{"a":1`, `[`, `["a`, `[1,`} {
		decode([]byte(cut), nil) // its result does not matter
	}
}
