package main

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"ndrbridge/cmd/internal/terminal"
)

// shownBody formats the body of a request for a person: one JSON value is indented,
// several are printed one per line, and anything else is left as it is. The result ends
// with a newline.
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
			_ = value.Indent(append(lax, jsontext.WithIndent("  "))...) // the decoder has validated it
		}
		b.Write(value)
		b.WriteByte('\n')
	}
	return b.String()
}

// printableLines replaces control characters in each line; see printable.
func printableLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(terminal.Printable(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return b.String()
}
