package jira

import (
	_ "embed"
	"encoding/json"
	"html/template"
	"net/http"
)

//go:embed browse.html
var issueText string

var issuePage = template.Must(template.New("issue").Parse(issueText))

// browse shows an issue in a browser, to everybody.
func (s *Server) browse(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(r.PathValue("key"))
	if i == nil {
		http.NotFound(w, r)
		return
	}
	type shownComment struct {
		Comment
		Text node
	}
	shown := struct {
		*Issue
		Text node
		All  []shownComment
	}{Issue: i}
	_ = json.Unmarshal(i.Description, &shown.Text) // it was checked
	for _, c := range i.Comments {
		one := shownComment{Comment: c}
		_ = json.Unmarshal(c.Body, &one.Text)
		shown.All = append(shown.All, one)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	_ = issuePage.Execute(w, shown) // fails only if the browser is gone
}
