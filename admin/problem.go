package admin

import (
	"encoding/json"
	"net/http"
)

// problem is a problem document of the type about:blank (RFC 9457, section
// 4.2.1). The client returns it as an error.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Field names the invalid field of the request, and Allowed its allowed values.
	// Both are empty if unknown.
	Field   string   `json:"field,omitempty"`
	Allowed []string `json:"allowed,omitempty"`
}

func newProblem(status int, detail string) *problem {
	return &problem{Title: http.StatusText(status), Status: status, Detail: detail}
}

func (p *problem) Error() string { return p.Detail }

// Is makes a 404 match ErrUnknown.
func (p *problem) Is(target error) bool {
	return p.Status == http.StatusNotFound && target == ErrUnknown
}

func writeProblem(w http.ResponseWriter, status int, detail string) {
	newProblem(status, detail).write(w)
}

func (p *problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // fails only if the client is gone
}
