package transform

import (
	"bytes"
	"iter"
)

// Fields yields the members of a JSON object in order: the name as written between its
// quotes, and the bytes of the value. It skips values without parsing them, so the
// object must be valid JSON. It yields nothing for any other value.
func Fields(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		i := skipSpace(object, 0)
		if i >= len(object) || object[i] != '{' {
			return
		}
		for i = skipSpace(object, i+1); i < len(object) && object[i] == '"'; i = skipSpace(object, i+1) {
			end := valueEnd(object, i)
			if end < 0 {
				return
			}
			name := object[i+1 : end-1]
			if i = skipSpace(object, end); i >= len(object) || object[i] != ':' {
				return
			}
			i = skipSpace(object, i+1)
			if end = valueEnd(object, i); end < 0 || !yield(name, object[i:end]) {
				return
			}
			if i = skipSpace(object, end); i >= len(object) || object[i] != ',' {
				return
			}
		}
	}
}

// Elements yields the elements of a JSON array in order, under the same conditions as
// Fields.
func Elements(array []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		i := skipSpace(array, 0)
		if i >= len(array) || array[i] != '[' {
			return
		}
		for i = skipSpace(array, i+1); i < len(array) && array[i] != ']'; i = skipSpace(array, i+1) {
			end := valueEnd(array, i)
			if end < 0 || !yield(array[i:end]) {
				return
			}
			if i = skipSpace(array, end); i >= len(array) || array[i] != ',' {
				return
			}
		}
	}
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// valueEnd returns the index after the value that begins at b[i], or -1 if b ends
// inside it.
func valueEnd(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return stringEnd(b, i)
	case '{', '[':
		for depth := 0; i < len(b); {
			switch b[i] {
			case '"':
				if i = stringEnd(b, i); i < 0 {
					return -1
				}
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
		return -1
	default:
		start := i
		for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' ' {
			i++
		}
		if i == start {
			return -1
		}
		return i
	}
}

// stringEnd returns the index after the string whose opening quote is b[i], or -1 if it
// does not end.
func stringEnd(b []byte, i int) int {
	for i++; ; i++ {
		quote := bytes.IndexByte(b[i:], '"')
		if quote < 0 {
			return -1
		}
		i += quote
		// An even number of backslashes before the quote escape each other.
		back := i
		for b[back-1] == '\\' {
			back--
		}
		if (i-back)%2 == 0 {
			return i + 1
		}
	}
}
