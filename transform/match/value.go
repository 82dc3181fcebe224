package match

import (
	"bytes"
	"strconv"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// decode converts a JSON value to a CEL value: a 64-bit integer to an int or uint, any
// other number to a double. The result does not reference data. Invalid JSON returns an
// error value.
func decode(data []byte) ref.Val {
	value, end := decodeAt(data, 0, 0)
	if end != len(data) {
		return types.NewErr("%.40q is not a JSON value", data)
	}
	return value
}

// maxDepth is the maximum nesting of lists and objects.
const maxDepth = 10_000

// decodeAt decodes the value at data[i]. It returns the index after it, or -1 if there
// is none.
func decodeAt(data []byte, i, depth int) (ref.Val, int) {
	end := 0
	switch {
	case i >= len(data) || depth > maxDepth:
		return nil, -1
	case data[i] == '{':
		return decodeObject(data, i, depth)
	case data[i] == '[':
		return decodeList(data, i, depth)
	case data[i] == '"':
		if end = skipString(data, i); end < 0 {
			return nil, -1
		}
		return types.String(stringText(data[i:end])), end
	}
	if end = skipValue(data, i); end < 0 {
		return nil, -1
	}
	switch literal := data[i:end]; string(literal) {
	case "true":
		return types.True, end
	case "false":
		return types.False, end
	case "null":
		return types.NullValue, end
	default:
		value := number(literal)
		if value == nil {
			return nil, -1
		}
		return value, end
	}
}

func decodeObject(data []byte, i, depth int) (ref.Val, int) {
	members := make(map[string]any)
	for i = skipSpace(data, i+1); i < len(data) && data[i] == '"'; i = skipSpace(data, i+1) {
		end := skipString(data, i)
		if end < 0 {
			return nil, -1
		}
		name := stringText(data[i:end])
		if i = skipSpace(data, end); i >= len(data) || data[i] != ':' {
			return nil, -1
		}
		value, end := decodeAt(data, skipSpace(data, i+1), depth+1)
		if end < 0 {
			return nil, -1
		}
		members[name] = value
		if i = skipSpace(data, end); i >= len(data) || data[i] != ',' {
			break
		}
	}
	if i >= len(data) || data[i] != '}' {
		return nil, -1
	}
	return types.NewStringInterfaceMap(types.DefaultTypeAdapter, members), i + 1
}

func decodeList(data []byte, i, depth int) (ref.Val, int) {
	var elements []ref.Val
	for i = skipSpace(data, i+1); i < len(data) && data[i] != ']'; i = skipSpace(data, i+1) {
		element, end := decodeAt(data, i, depth+1)
		if end < 0 {
			return nil, -1
		}
		elements = append(elements, element)
		if i = skipSpace(data, end); i >= len(data) || data[i] != ',' {
			break
		}
	}
	if i >= len(data) || data[i] != ']' {
		return nil, -1
	}
	return types.NewRefValList(types.DefaultTypeAdapter, elements), i + 1
}

// stringText returns the text of a JSON string.
func stringText(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	return string(unquote(quoted))
}

// number parses a JSON number; it returns nil for anything else.
func number(literal []byte) ref.Val {
	if c := literal[0]; c != '-' && (c < '0' || c > '9') {
		return nil // accepted by strconv but not by JSON: Inf, +1
	}
	if !bytes.ContainsAny(literal, ".eE") {
		if n, err := strconv.ParseInt(string(literal), 10, 64); err == nil {
			return types.Int(n)
		}
		if n, err := strconv.ParseUint(string(literal), 10, 64); err == nil {
			return types.Uint(n)
		}
	}
	// A number out of range becomes an infinity, which compares correctly.
	n, err := strconv.ParseFloat(string(literal), 64)
	if err != nil && n == 0 {
		return nil
	}
	return types.Double(n)
}
