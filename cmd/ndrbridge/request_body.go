package main

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// shownBody is the body of a request for a person: one JSON value indented, several
// a line each, and what is no JSON as it is. It ends with a line end.
func shownBody(body []byte) string {
	lax := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	var values []jsontext.Value
	decoder := jsontext.NewDecoder(bytes.NewReader(body), lax...)
	for {
		value, err := decoder.ReadValue()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return string(body) + "\n"
		}
		values = append(values, value.Clone())
	}
	var b strings.Builder
	for _, value := range values {
		if len(values) == 1 {
			_ = value.Indent(append(lax, jsontext.WithIndent("  "))...) // it has just been read
		}
		b.Write(value)
		b.WriteByte('\n')
	}
	return b.String()
}

// printableLines replaces what could do something to a terminal, line by line.
func printableLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(printable(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return b.String()
}
