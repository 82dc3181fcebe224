package openapi

import (
	"encoding/json"
	"strconv"
	"strings"
)

// isShort reports whether a number has few digits and a small exponent. The time to check another
// against a schema is in proportion to its value.
func isShort(n json.Number) bool {
	const digits, exponent = 100, 400 // which all float64 keep to
	if len(n) > digits {
		return false
	}
	_, e, found := strings.Cut(strings.ToLower(n.String()), "e")
	if !found {
		return true
	}
	power, err := strconv.Atoi(e)
	return err == nil && -exponent <= power && power <= exponent
}

// longNumber returns a number in a JSON value that is not short, and whether there is one.
func longNumber(value any) (n json.Number, ok bool) {
	switch value := value.(type) {
	case json.Number:
		return value, !isShort(value)
	case map[string]any:
		for _, inner := range value {
			if n, ok := longNumber(inner); ok {
				return n, true
			}
		}
	case []any:
		for _, inner := range value {
			if n, ok := longNumber(inner); ok {
				return n, true
			}
		}
	}
	return "", false
}
