// Package syslogread reads syslog from connections strictly, for tests.
package syslogread

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/leodido/go-syslog/v4/rfc5424"
)

// ErrFrame is the error for what is not a frame.
var ErrFrame = errors.New("not a frame")

// OctetCounting reads a message behind its length (RFC 6587, section 3.4.1, and RFC 5425).
// The error is ErrFrame for what has no length, and that of the reader if it ends before the
// message does.
func OctetCounting(from *bufio.Reader) ([]byte, error) {
	length, err := from.ReadString(' ')
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(length[:len(length)-1])
	if err != nil || n < 1 || strings.HasPrefix(length, "0") || strings.HasPrefix(length, "+") {
		return nil, fmt.Errorf("%w: length %.40q", ErrFrame, length)
	}
	text := make([]byte, n)
	_, err = io.ReadFull(from, text)
	return text, err
}

// Newline reads a message that a line feed ends (RFC 6587, section 3.4.2). The error is that
// of the reader.
func Newline(from *bufio.Reader) ([]byte, error) {
	line, err := from.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	return line[:len(line)-1], nil
}

// Parse parses a message by RFC 5424, with another implementation than that of the bridge.
func Parse(text []byte) (*rfc5424.SyslogMessage, error) {
	parsed, err := rfc5424.NewParser().Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %.300q", err, text)
	}
	return parsed.(*rfc5424.SyslogMessage), nil
}
