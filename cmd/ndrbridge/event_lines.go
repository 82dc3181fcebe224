package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/go-json-experiment/json/jsontext"

	"ndrbridge/transform"
)

// eventLine is a line with an event in JSON, as it came but for the white space
// around it.
type eventLine struct {
	number int // from 1
	text   []byte
	event  transform.Event
}

// eventLines reads events, one a line, until there are no more or ctx ends. Empty
// lines are passed over. An error tells its line, and is the last.
func eventLines(ctx context.Context, events io.Reader) iter.Seq2[eventLine, error] {
	return func(yield func(eventLine, error) bool) {
		lines := bufio.NewReader(events)
		for number, last := 1, false; !last && ctx.Err() == nil; number++ {
			text, err := lines.ReadBytes('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				yield(eventLine{}, fmt.Errorf("reading events: %w", err))
				return
			}
			last = err != nil
			if text = bytes.TrimSpace(text); len(text) == 0 {
				continue
			}
			e, err := parseLine(text)
			if err != nil {
				yield(eventLine{}, fmt.Errorf("line %d: %w", number, err))
				return
			}
			if !yield(eventLine{number, text, e}, nil) {
				return
			}
		}
	}
}

// parseLine parses an event that may have been written again since the bridge
// encoded it, with white space or none.
func parseLine(line []byte) (transform.Event, error) {
	compact := jsontext.Value(bytes.Clone(line))
	if err := compact.Compact(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return transform.Event{}, err
	}
	return transform.Parse(compact)
}
