package format

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"ndrbridge/test/require"
)

// ecsSchema is the list of the fields of ECS.
type ecsSchema struct {
	Version string              `json:"ecs_version"`
	Fields  map[string]ecsField `json:"fields"`
}

// ecsField is a field of ECS, or one of ours.
type ecsField struct {
	Type     string              `json:"type"`
	Array    bool                `json:"array,omitempty"`
	Allowed  []string            `json:"allowed,omitempty"`
	Expected map[string][]string `json:"expected_event_types,omitempty"`
}

var (
	// usedECS lists the fields that the documents have.
	usedECS = filepath.Join("testdata", "ecs-9.4.0-used-fields.json")
	// officialECS lists all fields of ECS, and is not part of the repository.
	officialECS = filepath.Join("..", "..", "..", "shared", "formats", "ecs", "ecs-9.4.0-fields.json")
)

func readECS(t testing.TB, file string) (s ecsSchema) {
	t.Helper()
	b := require.Value(os.ReadFile(file))(t)
	require.NoError(t, json.Unmarshal(b, &s))
	return s
}

// flattenedFields are those of our fields that an index maps as flattened.
var flattenedFields = []string{
	"ndrbridge.unmapped", "ndrbridge.audit.body", "ndrbridge.detection.participants", "ndrbridge.detection.properties",
	"ndrbridge.detection.changes", "ndrbridge.detection.devices", "ndrbridge.detection.context", "ndrbridge.detection.visibility",
	"ndrbridge.detection.note", "ndrbridge.detection.evidence",
}

// field returns the field at a path; ours by the rules in the comment of ecsTables.
func (s ecsSchema) field(path string) (f ecsField, found bool) {
	if !strings.HasPrefix(path, "ndrbridge.") {
		if strings.HasPrefix(path, "labels.") {
			return ecsField{Type: "keyword"}, true
		}
		f, found = s.Fields[path]
		return f, found
	}
	name := path[strings.LastIndexByte(path, '.')+1:]
	switch {
	case slices.Contains(flattenedFields, path):
		return ecsField{Type: "flattened", Array: true}, true
	case strings.HasSuffix(name, "_time"):
		return ecsField{Type: "date"}, true
	case strings.HasPrefix(name, "is_") || name == "recommended" || name == "redelivered" || name == "repaired":
		return ecsField{Type: "boolean"}, true
	}
	return ecsField{Type: "keyword", Array: true}, true
}

// check returns what is wrong with a document, and adds its fields to used.
func (s ecsSchema) check(document []byte, used map[string]bool) (problems []string) {
	report := func(path, format string, a ...any) {
		problems = append(problems, path+": "+fmt.Sprintf(format, a...))
	}
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	var root map[string]any
	if err := d.Decode(&root); err != nil {
		return []string{err.Error()}
	}
	var object func(path string, members map[string]any)
	value := func(path string, v any, f ecsField) {
		if array, is := v.([]any); is {
			if !f.Array {
				report(path, "an array")
			}
			if len(array) == 0 {
				report(path, "empty")
			}
			for _, element := range array {
				if wrong := wrongValue(element, f); wrong != "" {
					report(path, "%s", wrong)
				}
			}
			return
		}
		if wrong := wrongValue(v, f); wrong != "" {
			report(path, "%s", wrong)
		}
	}
	object = func(path string, members map[string]any) {
		for name, v := range members {
			at := strings.TrimPrefix(path+"."+name, ".")
			f, found := s.field(at)
			inner, isObject := v.(map[string]any)
			switch {
			case found && f.Type == "flattened":
				value(at, v, f)
				if n := immenseTerm(at, v, ""); n != "" {
					report(at, "%s", n)
				}
			case found && f.Type == "object" && f.Array: // an array of objects
				elements, _ := v.([]any)
				if len(elements) == 0 {
					report(at, "no array of objects")
				}
				for _, e := range elements {
					inner, isObject := e.(map[string]any)
					if !isObject || len(inner) == 0 {
						report(at, "%v in the array", e)
					}
					object(at, inner)
				}
			case isObject:
				if len(inner) == 0 {
					report(at, "empty")
				}
				object(at, inner)
				continue
			case !found:
				report(at, "not in ECS")
			default:
				value(at, v, f)
			}
			if used != nil {
				used[at] = true
			}
		}
	}
	object("", root)

	// Each event.type is expected of one of the categories.
	event, _ := root["event"].(map[string]any)
	version, _ := root["ecs"].(map[string]any)
	if event["kind"] == nil || event["id"] == nil || event["dataset"] == nil || root["@timestamp"] == nil || version["version"] != s.Version {
		report("event", "no kind, id, dataset, @timestamp or the wrong version")
	}
	types, _ := event["type"].([]any)
	categories, _ := event["category"].([]any)
	for _, kind := range types {
		if !slices.ContainsFunc(categories, func(c any) bool {
			return slices.Contains(s.Fields["event.category"].Expected[c.(string)], kind.(string))
		}) {
			report("event.type", "%q is not expected of %q", kind, categories)
		}
	}
	return problems
}

// wrongValue returns why an index refuses a value of a field, or "".
func wrongValue(v any, f ecsField) string {
	text, isText := v.(string)
	number, isNumber := v.(json.Number)
	ok := false
	switch f.Type {
	case "keyword", "wildcard", "match_only_text", "constant_keyword":
		ok = isText && text != "" && utf8.ValidString(text)
		if ok && len(f.Allowed) > 0 && !slices.Contains(f.Allowed, text) {
			return fmt.Sprintf("%q is not one of %q", text, f.Allowed)
		}
	case "ip":
		a, err := netip.ParseAddr(text)
		ok = isText && err == nil && a.Zone() == ""
	case "date":
		at, err := time.Parse(time.RFC3339, text)
		ok = isText && err == nil && at.Year() >= 1970
	case "long":
		_, err := strconv.ParseInt(number.String(), 10, 64)
		ok = isNumber && err == nil
	case "float":
		n, err := strconv.ParseFloat(number.String(), 32)
		ok = isNumber && err == nil && !math.IsInf(n, 0)
	case "boolean":
		_, ok = v.(bool)
	case "flattened":
		_, ok = v.(map[string]any)
	}
	if !ok {
		return fmt.Sprintf("%.100v (%T) is no %s", v, v, f.Type)
	}
	return ""
}

// immenseTerm returns a value in a flattened field that indexes refuse, or "". root is the
// field and path the names in it.
func immenseTerm(root string, v any, path string) string {
	if strings.Count(path, "/") > 20 {
		return "nested too deep: " + path[:100]
	}
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			if name == "" || strings.Contains(name, "\x00") {
				return fmt.Sprintf("name %q", name)
			}
			if wrong := immenseTerm(root, inner, path+"/"+name); wrong != "" {
				return wrong
			}
		}
	case []any:
		for _, inner := range v {
			if wrong := immenseTerm(root, inner, path); wrong != "" {
				return wrong
			}
		}
	case json.Number:
		if len(v) > 100 {
			return "a number of many digits"
		}
	case string:
		// The longest term is that of OpenSearch.
		if n := len(root) + len(".") + len(root) + len(path) + len("=") + len(v); n > 32766 {
			return fmt.Sprintf("%s has a term of %d bytes", path, n)
		}
	}
	return ""
}

// used returns the fields of the documents of all events, ours included.
func (s ecsSchema) used(t testing.TB) map[string]bool {
	used := make(map[string]bool)
	c := newECS(t)
	for _, k := range kinds(t) {
		s.check(c.Encode(k.event).Payload(), used)
	}
	return used
}

func newECS(t testing.TB) *Encoder {
	t.Helper()
	c := require.Value(New(ECS, Options{Version: "1.4.0"}))(t)
	return c
}
