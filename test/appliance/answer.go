package appliance

import (
	"fmt"
	"net/http"
	"strconv"
)

// answer is the appliance's response to a request, before hazards apply to it.
type answer struct {
	status      int
	contentType string
	header      http.Header
	parts       [][]byte // of the body; shared, not to be modified
}

const (
	typeJSON    = "application/json"
	typeProblem = "application/problem+json"
	typeText    = "text/plain; charset=utf-8"
	typeHTML    = "text/html; charset=utf-8"
)

func (a answer) size() (n int) {
	for _, part := range a.parts {
		n += len(part)
	}
	return n
}

func noContent() answer { return answer{status: http.StatusNoContent} }

func jsonAnswer(status int, v any) answer {
	b, err := encode(v)
	if err != nil {
		panic(err) // callers pass only types that can be encoded
	}
	return answer{status: status, contentType: typeJSON, parts: [][]byte{b}}
}

// arrayAnswer returns an answer with an array of elements that are encoded already.
func arrayAnswer(elements [][]byte) answer {
	open, comma, end := []byte("["), []byte(","), []byte("]")
	parts := make([][]byte, 0, 2*len(elements)+2)
	parts = append(parts, open)
	for i, e := range elements {
		if i > 0 {
			parts = append(parts, comma)
		}
		parts = append(parts, e)
	}
	return answer{status: http.StatusOK, contentType: typeJSON, parts: append(parts, end)}
}

func textAnswer(status int, text string) answer {
	return answer{status: status, contentType: typeText, parts: [][]byte{[]byte(text)}}
}

// refusal returns an answer in the form of most errors.
func refusal(status int, format string, args ...any) answer {
	return jsonAnswer(status, map[string]string{"error_message": fmt.Sprintf(format, args...)})
}

// unprocessable returns an answer in the form of errors about the appliance's state.
func unprocessable(format string, args ...any) answer {
	return jsonAnswer(http.StatusUnprocessableEntity, map[string]string{"detail": fmt.Sprintf(format, args...)})
}

// problem returns an answer in the form of errors about missing objects.
func problem(status int, format string, args ...any) answer {
	a := jsonAnswer(status, map[string]string{"type": "/api/v1/errors/" + strconv.Itoa(status), "detail": fmt.Sprintf(format, args...)})
	a.contentType = typeProblem
	return a
}

func badRequest(err error) answer { return refusal(http.StatusBadRequest, "%v", err) }
