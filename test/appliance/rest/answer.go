package rest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"ndrbridge/test/appliance/openapi"
)

// Answer is the appliance's response to a request, before hazards apply to it.
type Answer struct {
	Status      int
	ContentType string
	Header      http.Header
	Parts       [][]byte // of the body; shared, not to be modified
	// Audit is the entry for the audit log; nil: one is made from the operation's summary if it
	// succeeded and may change something. A refusal has one if it changed something nevertheless.
	Audit *Audit
}

// Audit describes an action of a client for the audit log.
type Audit struct {
	Operation, Component, Details string
}

// The media types of answers.
const (
	TypeJSON    = "application/json"
	TypeProblem = "application/problem+json"
	TypeText    = "text/plain; charset=utf-8"
	TypeHTML    = "text/html; charset=utf-8"
	TypeFile    = "application/octet-stream"
)

// Size returns the length of the body in bytes.
func (a Answer) Size() (n int) {
	for _, part := range a.Parts {
		n += len(part)
	}
	return n
}

// NoContent returns an answer without a body.
func NoContent() Answer { return Answer{Status: http.StatusNoContent} }

// Created returns the answer to the creation of the object with a path below
// [openapi.Root].
func Created(path string) Answer {
	return Answer{Status: http.StatusCreated, Header: http.Header{"Location": {openapi.Root + path}}}
}

// JSON returns an answer with a value that JSON can encode. It panics otherwise.
func JSON(status int, v any) Answer {
	b, err := Encode(v)
	if err != nil {
		panic(err) // callers pass only types that can be encoded
	}
	return Answer{Status: status, ContentType: TypeJSON, Parts: [][]byte{b}}
}

// Array returns an answer with an array of elements that are encoded already.
func Array(elements [][]byte) Answer {
	open, comma, end := []byte("["), []byte(","), []byte("]")
	parts := make([][]byte, 0, 2*len(elements)+2)
	parts = append(parts, open)
	for i, e := range elements {
		if i > 0 {
			parts = append(parts, comma)
		}
		parts = append(parts, e)
	}
	return Answer{Status: http.StatusOK, ContentType: TypeJSON, Parts: append(parts, end)}
}

// Text returns an answer with a plain text.
func Text(status int, text string) Answer {
	return Answer{Status: status, ContentType: TypeText, Parts: [][]byte{[]byte(text)}}
}

// Refuse returns an answer in the form of most errors.
func Refuse(status int, format string, args ...any) Answer {
	return JSON(status, map[string]string{"error_message": fmt.Sprintf(format, args...)})
}

// Unprocessable returns an answer in the form of errors about the appliance's state.
func Unprocessable(format string, args ...any) Answer {
	return JSON(http.StatusUnprocessableEntity, map[string]string{"detail": fmt.Sprintf(format, args...)})
}

// NotFound returns an answer in the form of errors about missing objects.
func NotFound(format string, args ...any) Answer {
	a := JSON(http.StatusNotFound, map[string]string{"type": "/api/v1/errors/404", "detail": fmt.Sprintf(format, args...)})
	a.ContentType = TypeProblem
	return a
}

// BadRequest returns an answer to a request that is invalid.
func BadRequest(err error) Answer { return Refuse(http.StatusBadRequest, "%v", err) }

// Encode is like json.Marshal but does not escape &, < and >.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
