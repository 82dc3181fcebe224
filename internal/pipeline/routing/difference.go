package routing

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// compareJSON returns how the JSON values that were sent differ from the expected ones,
// which may lack fields of objects. want is a list of them, or a single one.
func compareJSON(want any, got []any) []string {
	wanted, isList := normalized(want).([]any)
	if !isList {
		wanted = []any{normalized(want)}
	}
	if len(wanted) != len(got) {
		var sent []string
		for _, value := range got {
			sent = append(sent, written(value))
		}
		return []string{fmt.Sprintf("json: the number of values\n- %d\n+ %d\n%s", len(wanted), len(got), added(strings.Join(sent, "\n")))}
	}
	var failures []string
	for i := range wanted {
		path := "json"
		if len(wanted) > 1 {
			path = fmt.Sprintf("json[%d]", i)
		}
		failures = append(failures, compareValue(path, wanted[i], got[i])...)
	}
	return failures
}

// normalized returns a value of YAML as decoded from JSON.
func normalized(value any) any {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value) // a value that JSON cannot hold equals nothing
	}
	var decoded any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&decoded); err != nil {
		return fmt.Sprint(value)
	}
	return decoded
}

// sameNumber compares integers by their digits, since float64 cannot hold long ids.
func sameNumber(want, got json.Number) bool {
	if !strings.ContainsAny(string(want+got), ".eE") {
		return want == got
	}
	wanted, err := want.Float64()
	sent, errSent := got.Float64()
	return err == nil && errSent == nil && wanted == sent
}

// compareValue returns how a value at a path differs from the expected one.
func compareValue(path string, want, got any) []string {
	switch want := want.(type) {
	case map[string]any:
		object, isObject := got.(map[string]any)
		if !isObject {
			break
		}
		var failures []string
		for _, name := range slices.Sorted(maps.Keys(want)) {
			value, found := object[name]
			if !found {
				failures = append(failures, fmt.Sprintf("%s.%s\n- %s\n+ (missing; there are %s)", path, name, written(want[name]), strings.Join(slices.Sorted(maps.Keys(object)), ", ")))
				continue
			}
			failures = append(failures, compareValue(path+"."+name, want[name], value)...)
		}
		return failures
	case []any:
		list, isList := got.([]any)
		if !isList || len(list) != len(want) {
			break
		}
		var failures []string
		for i := range want {
			failures = append(failures, compareValue(fmt.Sprintf("%s[%d]", path, i), want[i], list[i])...)
		}
		return failures
	case json.Number:
		if number, isNumber := got.(json.Number); isNumber && sameNumber(want, number) {
			return nil
		}
	default:
		if reflect.DeepEqual(want, got) {
			return nil
		}
	}
	return []string{fmt.Sprintf("%s\n- %s\n+ %s", path, written(want), written(got))}
}

// written returns a value as JSON in one line.
func written(value any) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Sprint(value)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// added returns the lines of a text with a plus before each, up to a limit.
func added(text string) string {
	const most = 40
	lines := linesIn(text)
	if lines == nil {
		return "+ (nothing was sent)"
	}
	if len(lines) > most {
		lines = append(lines[:most:most], fmt.Sprintf("… %d more lines", len(lines)-most))
	}
	return "+ " + strings.Join(lines, "\n+ ")
}
