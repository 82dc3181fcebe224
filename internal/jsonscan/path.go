package jsonscan

import (
	"bytes"
	"strconv"
	"strings"
)

// At returns the value at a path in valid JSON, or nil: the path has names of members and indexes
// of elements, joined by dots. It is nil for the path "".
func At(value []byte, path string) []byte {
	if path == "" {
		return nil
	}
	for step := range strings.SplitSeq(path, ".") {
		value = below(bytes.TrimSpace(value), step)
	}
	return value
}

// below returns the member of an object or the element of a list that step names, or
// nil.
func below(value []byte, step string) []byte {
	if !bytes.HasPrefix(value, []byte("[")) {
		for name, member := range Members(value) {
			if string(name) == step {
				return member
			}
		}
		return nil
	}
	index, err := strconv.Atoi(step)
	if err != nil {
		return nil
	}
	for element := range Elements(value) {
		if index == 0 {
			return element
		}
		index--
	}
	return nil
}
