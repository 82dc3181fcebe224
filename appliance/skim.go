package appliance

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// skimModTime reads one JSON object to the end of r and returns the value of its
// mod_time, the last where it has several; 0 where that is no 64-bit integer.
// size is the number of bytes read. The memory that it takes does not depend on
// what it reads.
//
// It sees how values nest, and does not check those that it passes over. A name
// counts as it is written, without undoing escapes.
func skimModTime(r io.Reader) (modTime, size int64, err error) {
	s := skimmer{r: bufio.NewReaderSize(r, 32<<10)}
	modTime, err = s.object()
	switch err {
	case nil:
	case io.EOF:
		err = fmt.Errorf("the answer ends in the middle of its JSON, after %d bytes", s.size)
	case errNotObject:
	default:
		err = fmt.Errorf("read the answer: %w", err)
	}
	return modTime, s.size, err
}

var errNotObject = errors.New("the answer is not one JSON object")

// maxToken is how much is kept of a name or a value: more bytes than mod_time,
// or a 64-bit integer, has.
const maxToken = 24

// skimmer reads JSON byte by byte. Its methods return io.EOF where the stream
// ends too early.
type skimmer struct {
	r    *bufio.Reader
	size int64
	// token is the name or number last read, cut off behind maxToken bytes.
	token []byte
}

func (s *skimmer) object() (modTime int64, err error) {
	c, err := s.next()
	if err != nil {
		return 0, err
	}
	if c != '{' {
		return 0, errNotObject
	}
	if c, err = s.next(); c == '}' {
		return 0, s.end()
	}
	for err == nil {
		if c != '"' {
			return 0, errNotObject
		}
		if err = s.text(); err != nil {
			return 0, err
		}
		wanted := string(s.token) == "mod_time"
		if c, err = s.next(); err != nil {
			return 0, err
		}
		if c != ':' {
			return 0, errNotObject
		}
		if c, err = s.value(); err != nil {
			return 0, err
		}
		if wanted {
			if modTime, err = strconv.ParseInt(string(s.token), 10, 64); err != nil {
				modTime = 0
			}
		}
		switch c {
		case '}':
			return modTime, s.end()
		case ',':
			c, err = s.next()
		default:
			return 0, errNotObject
		}
	}
	return 0, err
}

// value reads past a value and returns what comes behind it. token is the value
// where it is no string, object or array, and empty otherwise.
func (s *skimmer) value() (byte, error) {
	c, err := s.next()
	if err != nil {
		return 0, err
	}
	switch c {
	case '"':
		err = s.text()
	case '{', '[':
		err = s.nested()
	default:
		s.token = s.token[:0]
		for c > ' ' && c != ',' && c != '}' && c != ']' {
			s.keep(c)
			if c, err = s.read(); err != nil {
				return 0, err
			}
		}
		if !space(c) {
			return c, nil
		}
		return s.next()
	}
	s.token = s.token[:0]
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

// end reads the rest of the stream, which is nothing but white space.
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

// next returns the next byte that is no white space.
func (s *skimmer) next() (byte, error) {
	for {
		if c, err := s.read(); err != nil || !space(c) {
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

func space(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }
