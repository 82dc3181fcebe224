package admin

import (
	"encoding/json"
	"net/http"
)

// problem is a problem document of the type about:blank (RFC 9457, section
// 4.2.1). To the client it is the error that it tells.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Field is what is wrong in the request, and Allowed are the values that it may
	// have, where that is known.
	Field   string   `json:"field,omitempty"`
	Allowed []string `json:"allowed,omitempty"`
}

func newProblem(status int, detail string) *problem {
	return &problem{Title: http.StatusText(status), Status: status, Detail: detail}
}

func (p *problem) Error() string { return p.Detail }

// Is makes a 404 the error that the bridge answered with.
func (p *problem) Is(target error) bool {
	return p.Status == http.StatusNotFound && target == ErrUnknown
}

func writeProblem(w http.ResponseWriter, status int, detail string) {
	newProblem(status, detail).write(w)
}

func (p *problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	// A client that went away misses it.
	_ = json.NewEncoder(w).Encode(p)
}
