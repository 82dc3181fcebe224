package match

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"ndrbridge/internal/jsonscan"
)

// decode converts a valid JSON value to a CEL value that does not reference it: a 64-bit
// integer to an int or uint, any other number to a double.
func decode(data []byte) ref.Val {
	value, _ := decodeAt(data, 0)
	return value
}

// decodeAt decodes the value at data[i], and returns the index after it.
func decodeAt(data []byte, i int) (ref.Val, int) {
	switch data[i] {
	case '{':
		members := make(map[string]any)
		i, more := jsonscan.First(data, i+1, '}')
		for more {
			m := jsonscan.ReadName(data, i)
			value, end := decodeAt(data, m.Value)
			members[stringText(data[m.Name-1:m.NameEnd+1])] = value
			i, more = jsonscan.Next(data, end, '}')
		}
		return types.NewStringInterfaceMap(types.DefaultTypeAdapter, members), i
	case '[':
		var elements []ref.Val
		i, more := jsonscan.First(data, i+1, ']')
		for more {
			var element ref.Val
			element, i = decodeAt(data, i)
			elements = append(elements, element)
			i, more = jsonscan.Next(data, i, ']')
		}
		return types.NewRefValList(types.DefaultTypeAdapter, elements), i
	}
	end := jsonscan.Value(data, i, 0)
	switch data[i] {
	case '"':
		return types.String(stringText(data[i:end])), end
	case 't':
		return types.True, end
	case 'f':
		return types.False, end
	case 'n':
		return types.NullValue, end
	}
	return number(data[i:end]), end
}

// stringText returns the text of a JSON string. Invalid Unicode is replaced.
func stringText(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	text, _ := jsontext.AppendUnquote(nil, quoted) // the error reports what was replaced
	return string(text)
}

// number converts a JSON number.
func number(literal []byte) ref.Val {
	if !bytes.ContainsAny(literal, ".eE") {
		if n, err := strconv.ParseInt(string(literal), 10, 64); err == nil {
			return types.Int(n)
		}
		if n, err := strconv.ParseUint(string(literal), 10, 64); err == nil {
			return types.Uint(n)
		}
	}
	// A number out of range becomes an infinity, which compares correctly.
	n, _ := strconv.ParseFloat(string(literal), 64)
	return types.Double(n)
}
