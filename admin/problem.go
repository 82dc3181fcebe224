package admin

import (
	"encoding/json"
	"net/http"
)

// problem is a problem document of the type about:blank (RFC 9457, section
// 4.2.1).
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

func writeProblem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	// A client that went away misses it.
	_ = json.NewEncoder(w).Encode(problem{http.StatusText(status), status, detail})
}
