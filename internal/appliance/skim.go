package appliance

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// skimJSON reads one JSON value to the end of r and fills in the values of some fields of
// one object in it, as written: the last one if a name occurs twice, and "" for an
// object or array. path leads to the object: names of members, and firstElement for the
// first element of an array. found reports whether the object exists. size is the number
// of bytes read. Memory use does not depend on the input.
//
// It follows the nesting of values without validating those that it skips. Names are
// compared as written, without decoding escapes.
func skimJSON(r io.Reader, path []string, fields map[string]string) (found bool, size int64, err error) {
	s := skimmer{r: bufio.NewReaderSize(r, 32<<10), fields: fields}
	c, err := s.next()
	if err == nil {
		if err = s.descend(c, path); err == nil {
			err = s.end()
		}
	}
	switch err {
	case nil, errNotObject:
		return s.found, s.size, err
	case io.EOF:
		return s.found, s.size, fmt.Errorf("the answer's JSON is incomplete, it ends after %d bytes", s.size)
	}
	return s.found, s.size, fmt.Errorf("read the answer: %w", err)
}

// firstElement is the path element for the first element of an array.
const firstElement = "[0]"

// errNotObject means that a value on the path is not of the expected kind, that its
// JSON is malformed, or that data follows it.
var errNotObject = errors.New("the answer is not the expected JSON object")

// maxToken is how many bytes of a name or a value are kept: more than a 64-bit integer
// or an id has.
const maxToken = 128

// skimmer reads JSON byte by byte. Its methods return io.EOF if the input ends too
// early.
type skimmer struct {
	r      *bufio.Reader
	size   int64
	fields map[string]string
	found  bool
	// token is the name or value last read, truncated to maxToken bytes.
	token []byte
}

// descend reads the value whose first byte is c, following path.
func (s *skimmer) descend(c byte, path []string) error {
	isFirst := len(path) > 0 && path[0] == firstElement
	switch {
	case c == '{' && !isFirst:
		return s.object(path)
	case c == '[' && isFirst:
		c, err := s.next()
		if err != nil || c == ']' {
			return err
		}
		if err := s.descend(c, path[1:]); err != nil {
			return err
		}
		return s.nested() // the remaining elements
	}
	return errNotObject
}

// object reads an object whose brace was read: the requested one if path is empty.
func (s *skimmer) object(path []string) error {
	s.found = s.found || len(path) == 0
	c, err := s.next()
	if c == '}' {
		return err
	}
	for err == nil {
		if c != '"' {
			return errNotObject
		}
		if err = s.text(); err != nil {
			return err
		}
		name := string(s.token)
		if c, err = s.next(); err != nil {
			return err
		}
		if c != ':' {
			return errNotObject
		}
		if len(path) > 0 && name == path[0] {
			if c, err = s.next(); err == nil {
				if err = s.descend(c, path[1:]); err == nil {
					c, err = s.next()
				}
			}
		} else {
			c, err = s.value()
			if _, wanted := s.fields[name]; wanted && len(path) == 0 && err == nil {
				s.fields[name] = string(s.token)
			}
		}
		if err != nil {
			return err
		}
		switch c {
		case '}':
			return nil
		case ',':
			c, err = s.next()
		default:
			return errNotObject
		}
	}
	return err
}

// value skips a value and returns the byte after it. token is the value, or empty for
// an object or array.
func (s *skimmer) value() (byte, error) {
	c, err := s.next()
	if err != nil {
		return 0, err
	}
	switch c {
	case '"':
		err = s.text()
		s.token = append(append([]byte{'"'}, s.token...), '"')
	case '{', '[':
		err = s.nested()
		s.token = s.token[:0]
	default:
		s.token = s.token[:0]
		for c > ' ' && c != ',' && c != '}' && c != ']' {
			s.keep(c)
			if c, err = s.read(); err != nil {
				return 0, err
			}
		}
		if !isSpace(c) {
			return c, nil
		}
		return s.next()
	}
	if err != nil {
		return 0, err
	}
	return s.next()
}

// nested reads to the end of the object or array whose first byte was read.
func (s *skimmer) nested() error {
	for depth := 1; depth > 0; {
		c, err := s.read()
		if err != nil {
			return err
		}
		switch c {
		case '"':
			if err := s.text(); err != nil {
				return err
			}
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
	}
	return nil
}

// text reads to the end of the string whose opening quote was read, into token.
func (s *skimmer) text() error {
	s.token = s.token[:0]
	for escaped := false; ; {
		c, err := s.read()
		if err != nil {
			return err
		}
		if c == '"' && !escaped {
			return nil
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

// end reads the rest of the input, which must be white space.
func (s *skimmer) end() error {
	_, err := s.next()
	switch err {
	case io.EOF:
		return nil
	case nil:
		return errNotObject
	}
	return err
}

// next returns the next byte that is not white space.
func (s *skimmer) next() (byte, error) {
	for {
		if c, err := s.read(); err != nil || !isSpace(c) {
			return c, err
		}
	}
}

func (s *skimmer) read() (byte, error) {
	c, err := s.r.ReadByte()
	if err == nil {
		s.size++
	}
	return c, err
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }
