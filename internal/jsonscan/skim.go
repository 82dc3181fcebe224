package jsonscan

import (
	"bufio"
	"errors"
	"io"
)

// Skim reads one JSON value to the end of r and fills in the values of some fields of
// one object in it, as written: the last one if a name occurs twice, and "" for an
// object or array. path leads to the object: names of members, and FirstElement for the
// first element of an array. found reports whether the object exists. size is the number
// of bytes read. Memory use does not depend on the input.
//
// It follows the nesting of values without validating those that it skips. Names are
// compared as written, without decoding escapes.
//
// The error is ErrIncomplete, ErrNotObject, or that of r.
func Skim(r io.Reader, path []string, fields map[string]string) (found bool, size int64, err error) {
	s := skimmer{r: bufio.NewReaderSize(r, 32<<10), fields: fields}
	s.descend(s.next(), path)
	if s.err == nil {
		if s.next(); s.err == nil { // only white space may follow
			s.err = ErrNotObject
		} else if s.err == io.EOF {
			s.err = nil
		}
	}
	if s.err == io.EOF {
		s.err = ErrIncomplete
	}
	return s.found, s.size, s.err
}

// FirstElement is the path element for the first element of an array.
const FirstElement = "[0]"

var (
	// ErrIncomplete means that the input ends within the value.
	ErrIncomplete = errors.New("incomplete JSON")
	// ErrNotObject means that a value on the path is not of the expected kind, that its
	// JSON is malformed, or that data follows it.
	ErrNotObject = errors.New("not the expected JSON object")
)

// maxToken is how many bytes of a name or a value are kept: more than a 64-bit integer
// or an id has.
const maxToken = 128

// skimmer reads JSON byte by byte. After its first error, which is io.EOF if the input ends
// too early, it reads only bytes that are 0.
type skimmer struct {
	r      *bufio.Reader
	err    error
	size   int64
	fields map[string]string
	found  bool
	// token is the name or value last read, truncated to maxToken bytes.
	token []byte
}

// descend reads the value whose first byte is c, following path.
func (s *skimmer) descend(c byte, path []string) {
	isFirst := len(path) > 0 && path[0] == FirstElement
	switch {
	case c == '{' && !isFirst:
		s.object(path)
	case c == '[' && isFirst:
		if c := s.next(); c != ']' {
			s.descend(c, path[1:])
			s.nested() // the remaining elements
		}
	default:
		s.fail()
	}
}

// object reads an object whose brace was read: the requested one if path is empty.
func (s *skimmer) object(path []string) {
	s.found = s.found || len(path) == 0
	c := s.next()
	if c == '}' {
		return
	}
	for s.err == nil {
		if c != '"' {
			s.fail()
			return
		}
		s.text()
		name := string(s.token)
		if c = s.next(); c != ':' {
			s.fail()
			return
		}
		if len(path) > 0 && name == path[0] {
			s.descend(s.next(), path[1:])
			c = s.next()
		} else {
			c = s.value()
			if _, wanted := s.fields[name]; wanted && len(path) == 0 && s.err == nil {
				s.fields[name] = string(s.token)
			}
		}
		switch c {
		case '}':
			return
		case ',':
			c = s.next()
		default:
			s.fail()
		}
	}
}

// value skips a value and returns the byte after it. token is the value, or empty for
// an object or array.
func (s *skimmer) value() byte {
	c := s.next()
	switch c {
	case '"':
		s.text()
		s.token = append(append([]byte{'"'}, s.token...), '"')
		return s.next()
	case '{', '[':
		s.nested()
		s.token = s.token[:0]
		return s.next()
	}
	s.token = s.token[:0]
	for c > ' ' && c != ',' && c != '}' && c != ']' {
		s.keep(c)
		c = s.read()
	}
	if isSpace(c) {
		return s.next()
	}
	return c
}

// nested reads to the end of the object or array whose first byte was read.
func (s *skimmer) nested() {
	for depth := 1; depth > 0 && s.err == nil; {
		switch s.read() {
		case '"':
			s.text()
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
	}
}

// text reads to the end of the string whose opening quote was read, into token.
func (s *skimmer) text() {
	s.token = s.token[:0]
	for escaped := false; s.err == nil; {
		c := s.read()
		if c == '"' && !escaped {
			return
		}
		escaped = c == '\\' && !escaped
		s.keep(c)
	}
}

func (s *skimmer) keep(c byte) {
	if len(s.token) < maxToken {
		s.token = append(s.token, c)
	}
}

// next returns the next byte that is not white space.
func (s *skimmer) next() byte {
	for {
		if c := s.read(); !isSpace(c) {
			return c
		}
	}
}

func (s *skimmer) read() byte {
	if s.err != nil {
		return 0
	}
	c, err := s.r.ReadByte()
	if err != nil {
		s.err = err
		return 0
	}
	s.size++
	return c
}

// fail reports malformed or unexpected JSON, unless reading has failed before.
func (s *skimmer) fail() {
	if s.err == nil {
		s.err = ErrNotObject
	}
}
