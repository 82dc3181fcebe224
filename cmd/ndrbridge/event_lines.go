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

// eventLine is an input line with an event in JSON, without surrounding white space.
type eventLine struct {
	number int // from 1
	text   []byte
	event  transform.Event
}

// eventLines reads events, one per line, until the end of the input or until ctx is
// cancelled. Empty lines are skipped. It yields at most one error, which names the line
// and ends the sequence.
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

// parseLine parses an event. Unlike transform.Parse, it accepts JSON with insignificant
// white space, which other programs may have added.
func parseLine(line []byte) (transform.Event, error) {
	compact := jsontext.Value(bytes.Clone(line))
	if err := compact.Compact(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return transform.Event{}, err
	}
	return transform.Parse(compact)
}
