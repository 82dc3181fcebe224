package transform_test

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

func TestRedaction(t *testing.T) {
	const data = `{"detection":{"id":25769804127,"title":"a, \"b\" {","participants":[{"username":"ana","id":1.10},{"id":2},null],"properties":{"client":{"type":"ipaddr","value":["10.0.0.1"]}}},"changes":{}}`
	for name, c := range map[string]struct {
		paths []string
		want  string
	}{
		"nothing is taken out without a path":       {nil, data},
		"a field that is not there changes nothing": {[]string{"detection.nothing", "audit"}, data},
		"a field of an object": {[]string{"detection.properties"},
			`{"detection":{"id":25769804127,"title":"a, \"b\" {","participants":[{"username":"ana","id":1.10},{"id":2},null]},"changes":{}}`},
		"a field of each element of an array": {[]string{"detection.participants.username"},
			`{"detection":{"id":25769804127,"title":"a, \"b\" {","participants":[{"id":1.10},{"id":2},null],"properties":{"client":{"type":"ipaddr","value":["10.0.0.1"]}}},"changes":{}}`},
		"a whole member": {[]string{"audit", "detection"}, `{}`},
		"the shorter of two paths, in either order": {[]string{"detection.properties.client", "detection.participants", "detection.properties", "detection.participants.id", "detection.title"},
			`{"detection":{"id":25769804127},"changes":{}}`},
	} {
		t.Run(name, func(t *testing.T) {
			r := require.Value(transform.ParseRedaction(c.paths))(t)
			a := transform.Attributes{ID: "1", Source: "ndrbridge://hq/detections", Type: "t", Subject: "s", Repaired: true}
			e := require.Value(transform.New(a, []byte(data)))(t)
			got := require.Value(r.Apply(e))(t)
			again, err := r.Apply(e.Redeliver(3))
			assert.True(t, err == nil && again.Redelivered && again.Redelivery() == 3, "a redelivered event", again.Attributes, err)
			assert.Equal(t, string(got.Data()), c.want)
			assert.Equal(t, got.Attributes, a, "attributes")
			assert.Equal(t, string(e.Data()), data, "the event itself was changed")
		})
	}
	for _, path := range []string{"", ".", "a..b", "a.", `a"b`, `a\b`} {
		_, err := transform.ParseRedaction([]string{"good", path})
		assert.Error(t, err, path, "is accepted as a path")
	}
}

func TestANameThatIsWrittenWithEscapesIsRedacted(t *testing.T) {
	r, err := transform.ParseRedaction([]string{"detection.assignee"})
	require.NoError(t, err)
	e, err := transform.New(transform.Attributes{ID: "1", Source: "s", Type: "t"}, []byte(`{"detection":{"assi\u0067nee":"lena","assig\nee":"kept"}}`))
	require.NoError(t, err)
	got := require.Value(r.Apply(e))(t)
	assert.Equal(t, string(got.Data()), `{"detection":{"assig\nee":"kept"}}`)
}

func TestRedactionOfAFieldRedactsItsChange(t *testing.T) {
	const data = `{"detection":{"assignee":"lena","risk_score":41,"title":"scan","participants":[{"username":"ana"},{}]},` +
		`"changes":{"assignee":{"from":"lena","to":"ana"},"risk_score":{"from":40,"to":41},"title":{"from":{"a":"x","b":1},"to":"scan"},"participants":{"from":1,"to":2}}}`
	for name, c := range map[string]struct {
		path string
		want string
	}{
		"a tracked field": {"detection.assignee",
			`{"detection":{"risk_score":41,"title":"scan","participants":[{"username":"ana"},{}]},` +
				`"changes":{"risk_score":{"from":40,"to":41},"title":{"from":{"a":"x","b":1},"to":"scan"},"participants":{"from":1,"to":2}}}`},
		"a field within a tracked field": {"detection.title.a",
			`{"detection":{"assignee":"lena","risk_score":41,"title":"scan","participants":[{"username":"ana"},{}]},` +
				`"changes":{"assignee":{"from":"lena","to":"ana"},"risk_score":{"from":40,"to":41},"title":{"from":{"b":1},"to":"scan"},"participants":{"from":1,"to":2}}}`},
		"a field of participants, of which only the count is tracked": {"detection.participants.username",
			`{"detection":{"assignee":"lena","risk_score":41,"title":"scan","participants":[{},{}]},` +
				`"changes":{"assignee":{"from":"lena","to":"ana"},"risk_score":{"from":40,"to":41},"title":{"from":{"a":"x","b":1},"to":"scan"},"participants":{"from":1,"to":2}}}`},
		"the whole detection": {"detection", `{}`},
		"a change alone": {"changes.assignee",
			`{"detection":{"assignee":"lena","risk_score":41,"title":"scan","participants":[{"username":"ana"},{}]},` +
				`"changes":{"risk_score":{"from":40,"to":41},"title":{"from":{"a":"x","b":1},"to":"scan"},"participants":{"from":1,"to":2}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			// The order in which fields are listed, and a path into changes beside one
			// into the detection, make no difference.
			for _, paths := range [][]string{{c.path}, {c.path, "changes.recommended.from"}, {"changes.recommended.from", "detection.recommended", c.path}} {
				r, err := transform.ParseRedaction(paths)
				require.NoError(t, err)
				e, err := transform.New(transform.Attributes{ID: "1", Source: "s", Type: "t"}, []byte(data))
				require.NoError(t, err)
				got := require.Value(r.Apply(e))(t)
				assert.Equal(t, string(got.Data()), c.want, paths)
			}
		})
	}
}

func TestRedactionOfAnyJSON(t *testing.T) {
	name := rapid.SampledFrom([]string{"a", "b", "c"})
	rapid.Check(t, func(t *rapid.T) {
		value := jsonValue(t, 4)
		path := rapid.SliceOfN(name, 1, 3).Draw(t, "path")
		data := require.Value(json.Marshal(map[string]any{"a": value}))(t)
		joined := ""
		for i, n := range path {
			if i > 0 {
				joined += "."
			}
			joined += n
		}
		r := require.Value(transform.ParseRedaction([]string{joined}))(t)
		e := require.Value(transform.New(transform.Attributes{ID: "1", Source: "s", Type: "t"}, data))(t)
		redacted := require.Value(r.Apply(e))(t)
		var got any
		require.NoError(t, json.Unmarshal(redacted.Data(), &got), string(redacted.Data()))
		want := require.Value(json.Marshal(without(map[string]any{"a": value}, path)))(t)
		normal := require.Value(json.Marshal(got))(t)
		require.Equal(t, string(normal), string(want), string(data), "without", joined)
	})
}

// jsonValue draws a value of any kind.
func jsonValue(t *rapid.T, depth int) any {
	switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
	case kind == 0:
		return nil
	case kind == 1:
		return rapid.Bool().Draw(t, "boolean")
	case kind == 2:
		return rapid.String().Draw(t, "string")
	case kind == 3 || depth == 0:
		return float64(rapid.IntRange(-5, 5).Draw(t, "number"))
	case kind == 4:
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "elements") {
			list = append(list, jsonValue(t, depth-1))
		}
		return list
	}
	object := map[string]any{}
	for range rapid.IntRange(0, 3).Draw(t, "members") {
		object[rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")] = jsonValue(t, depth-1)
	}
	return object
}

// without is a simple implementation of redaction, for comparison.
func without(value any, path []string) any {
	switch v := value.(type) {
	case map[string]any:
		left := map[string]any{}
		for name, member := range v {
			switch {
			case name != path[0]:
				left[name] = member
			case len(path) > 1:
				left[name] = without(member, path[1:])
			}
		}
		return left
	case []any:
		left := make([]any, len(v))
		for i, element := range v {
			left[i] = without(element, path)
		}
		return left
	}
	return value
}
