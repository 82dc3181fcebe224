package rest

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// Integers returns a JSON value in which whole numbers are written as integers: JSON Schema
// takes 7.0 and 1e3 for integers, but Go does not decode them into one. It modifies objects
// and arrays in place, and reports whether it did.
func Integers(value any) (integers any, modified bool) {
	switch value := value.(type) {
	case json.Number:
		return integer(value)
	case map[string]any:
		for name, inner := range value {
			var did bool
			value[name], did = Integers(inner)
			modified = modified || did
		}
	case []any:
		for i, inner := range value {
			var did bool
			value[i], did = Integers(inner)
			modified = modified || did
		}
	}
	return value, modified
}

func integer(n json.Number) (json.Number, bool) {
	const exact = 1 << 53 // below, every integer is a float64
	if !strings.ContainsAny(n.String(), ".eE") {
		return n, false
	}
	f, err := n.Float64()
	if err != nil || f != math.Trunc(f) || math.Abs(f) >= exact {
		return n, false
	}
	return json.Number(strconv.FormatInt(int64(f), 10)), true
}
