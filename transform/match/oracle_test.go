package match

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"pgregory.net/rapid"

	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// TestMatchesAgreesWithFullyDecodedJSON compares with plain CEL over fully decoded
// maps: if CEL's result is true or false, Matches returns the same. If CEL has no
// result, an event may only match with an error, and a missing field is not an error.
func TestMatchesAgreesWithFullyDecodedJSON(t *testing.T) {
	env, err := cel.NewEnv(cel.CrossTypeNumericComparisons(true),
		cel.Variable("detection", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("changes", cel.MapType(cel.StringType, cel.DynType)))
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		data := `{"detection":` + drawObject(t, 0)
		if rapid.Bool().Draw(t, "changes") {
			data += `,"changes":` + drawObject(t, 1)
		}
		data += `}`
		expression := drawCondition(t, 0, "")

		e, err := transform.New(transform.Attributes{ID: "1-2", Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection.updated"}, []byte(data))
		require.NoError(t, err)
		got, gotErr := matchOnce(t, expression, e)
		negated, negatedErr := matchOnce(t, "!("+expression+")", e) // distinguishes false from undecided

		ast, issues := env.Compile(expression)
		if issues.Err() != nil {
			t.Fatal(issues.Err())
		}
		program := require.Value(env.Program(ast))(t)
		value, _, err := program.Eval(decodeWhole(t, data))
		switch want, decided := value.(types.Bool); {
		case decided:
			if gotErr != nil || got != bool(want) || negatedErr != nil || negated == got {
				t.Fatalf("%s over %s gives %v, %v, and negated %v, %v; want %v", expression, data, got, gotErr, negated, negatedErr, want)
			}
		case got != (gotErr != nil), negated != (negatedErr != nil), gotErr != nil && saysAbsent(gotErr):
			t.Fatalf("%s over %s gives %v, %v, and negated %v, %v, beside %v, %v", expression, data, got, gotErr, negated, negatedErr, value, err)
		}
	})
}

func matchOnce(t *rapid.T, expression string, e transform.Event) (bool, error) {
	m, err := compile(expression)
	require.NoError(t, err, "compile", expression)
	return m.Matches(e)
}

func saysAbsent(err error) bool {
	for _, reason := range []string{"no such key", "index out of bounds", "no such attribute"} {
		if strings.Contains(err.Error(), reason) {
			return true
		}
	}
	return false
}

// decodeWhole decodes with the standard library, and converts numbers like package
// match.
func decodeWhole(t *rapid.T, data string) map[string]any {
	decoder := json.NewDecoder(strings.NewReader(data))
	decoder.UseNumber()
	var decoded map[string]any
	require.NoError(t, decoder.Decode(&decoded), data)
	return withNumbers(decoded).(map[string]any)
}

func withNumbers(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			value[name] = withNumbers(member)
		}
	case []any:
		for i, element := range value {
			value[i] = withNumbers(element)
		}
	case json.Number:
		if n, err := value.Int64(); err == nil {
			return n
		}
		if n, err := strconv.ParseUint(value.String(), 10, 64); err == nil {
			return n
		}
		n, err := value.Float64()
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			panic(err)
		}
		return n
	}
	return value
}

// The names and values are few, so that expressions meet them.
var (
	names    = []string{"a", "b", "c", "list", "objects"}
	literals = []string{`null`, `true`, `false`, `0`, `-1`, `61`, `61.0`, `61.5`, `9007199254740993`, `18446744073709551615`, `1e3`,
		`"x"`, `"xy"`, `"x \" } ] \\"`, `"\u00fc"`, `""`}
)

func drawSpace(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "", "", " ", "\n\t"}).Draw(t, "space")
}

func drawObject(t *rapid.T, depth int) string {
	var members []string
	for range rapid.IntRange(0, 5).Draw(t, "members") {
		name := rapid.SampledFrom(names).Draw(t, "name")
		written := `"` + name + `"`
		if rapid.IntRange(0, 9).Draw(t, "escaped") == 0 {
			written = fmt.Sprintf(`"\u%04x%s"`, name[0], name[1:])
		}
		members = append(members, drawSpace(t)+written+drawSpace(t)+":"+drawSpace(t)+drawValue(t, name, depth+1)+drawSpace(t))
	}
	return "{" + strings.Join(members, ",") + drawSpace(t) + "}"
}

func drawValue(t *rapid.T, name string, depth int) string {
	kind := rapid.IntRange(0, 9).Draw(t, "kind")
	switch {
	case name == "list" && kind > 1:
		return drawList(t, func() string { return rapid.SampledFrom(literals).Draw(t, "element") })
	case name == "objects" && kind > 1 && depth < 3:
		return drawList(t, func() string { return drawObject(t, depth+1) })
	case name == "c" && kind > 2 && depth < 3:
		return drawObject(t, depth+1)
	}
	return rapid.SampledFrom(literals).Draw(t, "value")
}

func drawList(t *rapid.T, draw func() string) string {
	var elements []string
	for range rapid.IntRange(0, 3).Draw(t, "elements") {
		elements = append(elements, drawSpace(t)+draw()+drawSpace(t))
	}
	return "[" + strings.Join(elements, ",") + "]"
}

// drawCondition draws an expression of type bool, within a loop over local.
func drawCondition(t *rapid.T, depth int, local string) string {
	most := 14
	if depth > 2 {
		most = 8
	}
	operand := func() string { return drawOperand(t, local) }
	condition := func() string { return drawCondition(t, depth+1, local) }
	switch rapid.IntRange(0, most).Draw(t, "condition") {
	case 0, 1:
		return operand() + rapid.SampledFrom([]string{" == ", " != "}).Draw(t, "equal") + operand()
	case 2, 3:
		return operand() + rapid.SampledFrom([]string{" < ", " <= ", " > ", " >= "}).Draw(t, "order") + operand()
	case 4:
		path := drawPath(t, local)
		if !strings.Contains(path, ".") || strings.HasSuffix(path, "]") {
			path += ".a"
		}
		return "has(" + path + ")"
	case 5:
		return "dyn(" + operand() + ").startsWith(\"x\")"
	case 6:
		return operand() + " in " + rapid.SampledFrom([]string{"detection.list", "detection.c", `[null, 61, "x"]`, "detection"}).Draw(t, "in")
	case 7:
		return "size(dyn(" + operand() + ")) > 1"
	case 8:
		return drawPath(t, local) + " == " + rapid.SampledFrom([]string{"detection.list", "detection.c", "[]", "{}", `[61, "x"]`, `{"a": 61}`}).Draw(t, "whole")
	case 9:
		return "!(" + condition() + ")"
	case 10:
		return "(" + condition() + " && " + condition() + ")"
	case 11:
		return "(" + condition() + " || " + condition() + ")"
	case 12:
		return "(" + condition() + " ? " + condition() + " : " + operand() + " == " + operand() + ")"
	case 13:
		return "(" + drawPath(t, local) + " && " + condition() + ")"
	default:
		if local != "" {
			return "true"
		}
		loop := rapid.SampledFrom([]string{"exists", "all", "exists_one"}).Draw(t, "loop")
		over := rapid.SampledFrom([]string{"list", "objects", "c"}).Draw(t, "over")
		variable := rapid.SampledFrom([]string{"p", "detection"}).Draw(t, "variable")
		return "detection." + over + "." + loop + "(" + variable + ", " + drawCondition(t, depth+1, variable) + ")"
	}
}

func drawOperand(t *rapid.T, local string) string {
	if rapid.IntRange(0, 2).Draw(t, "literal") == 0 {
		literal := rapid.SampledFrom(literals).Draw(t, "operand")
		if literal == "18446744073709551615" {
			literal += "u"
		}
		return "dyn(" + literal + ")"
	}
	return drawPath(t, local)
}

func drawPath(t *rapid.T, local string) string {
	path := rapid.SampledFrom([]string{"detection", "detection", "detection", "changes"}).Draw(t, "variable")
	if local != "" && rapid.Bool().Draw(t, "local") {
		path = local
	}
	if local != "" && rapid.IntRange(0, 4).Draw(t, "bare") == 0 {
		return local
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "selections") {
		switch name := rapid.SampledFrom(names).Draw(t, "name"); rapid.IntRange(0, 9).Draw(t, "selection") {
		case 0:
			if i == 0 {
				path += "." + name // the type checker refuses an index of an object
				continue
			}
			path += "[0]"
		case 1:
			path += `["` + name + `"]`
		case 2:
			path += "[dyn(changes.a)]"
		default:
			path += "." + name
		}
	}
	return path
}
